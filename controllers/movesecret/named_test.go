package movesecret

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
