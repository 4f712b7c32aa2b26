package movesecret

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func TestMemory(t *testing.T) {
	object := func(uid string, generation int64) client.Object {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "metal3", Name: "object", UID: types.UID(uid), Generation: generation,
		}}
	}
	moving := []string{"user"}
	cases := map[string]struct {
		reason string
		in     client.Object
		want   []string
	}{
		"Changed": {"known Secrets require no read", object("1", 2), moving},
		"Resync":  {"the periodic resync reads all Secrets", object("1", 1), nil},
		"Another": {"another object with the same name", object("2", 2), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			cache := &memory{}
			cache.set(object("1", 1), moving)
			if diff := cmp.Diff(tc.want, cache.get(tc.in)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			cache.Delete(client.ObjectKeyFromObject(tc.in))
			if got := cache.get(tc.in); got != nil {
				t.Errorf("got %v for a forgotten object", got)
			}
		})
	}
}

// TestObjectsAreReadWithoutCopy reconciles a host that names no Secret.
func TestObjectsAreReadWithoutCopy(t *testing.T) {
	host := build.Host("host")
	host.Spec.BMC.CredentialsName = ""
	stored, copies := stage.CountCopies(host)
	reconcile := (&Reconciler{Client: stored, Cached: stored}).reconciler(&bmov1alpha1.BareMetalHost{})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(host)}
	if _, err := reconcile(t.Context(), request); err != nil || *copies != 0 {
		t.Errorf("the host was copied %d times: %v", *copies, err)
	}
}
