package host_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestReclaimed(t *testing.T) {
	machine := build.Metal3Machine("machine", "cluster")
	claim := host.Claim{
		Machine: machine.Name, Namespace: machine.Namespace, Cluster: "cluster",
		Provision: &host.Provision{Image: machine.Spec.Image},
	}
	userData := &corev1.SecretReference{Name: "bootstrap", Namespace: machine.Namespace}
	now := metav1.Unix(1_700_000_000, 0)
	cases := map[string]struct {
		reason string
		change func(*bmov1alpha1.BareMetalHost)
		want   bool
	}{
		"Stripped": {"only the consumerRef is missing", func(*bmov1alpha1.BareMetalHost) {}, true},
		"ImplicitNamespace": {
			"the namespace of a Secret is optional", func(h *bmov1alpha1.BareMetalHost) { h.Spec.UserData.Namespace = "" }, true,
		},
		"Claimed": {
			"another machine", func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.ConsumerRef = &corev1.ObjectReference{
					APIVersion: infrav1.GroupVersion.String(), Kind: host.MachineKind, Namespace: h.Namespace, Name: "other",
				}
			}, false,
		},
		"Empty":         {"the host was released", func(h *bmov1alpha1.BareMetalHost) { h.Spec.Image = nil }, false},
		"OtherImage":    {"the host runs another system", func(h *bmov1alpha1.BareMetalHost) { h.Spec.Image.URL = "http://other" }, false},
		"OtherUserData": {"the host runs another machine", func(h *bmov1alpha1.BareMetalHost) { h.Spec.UserData.Name = "other" }, false},
		"NoUserData":    {"the host runs another machine", func(h *bmov1alpha1.BareMetalHost) { h.Spec.UserData = nil }, false},
		"Deploy": {
			"the host runs another system",
			func(h *bmov1alpha1.BareMetalHost) { h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "x"} }, false,
		},
		"Deleted": {"the host is being deleted", func(h *bmov1alpha1.BareMetalHost) { h.DeletionTimestamp = &now }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			current := build.Host("host", build.Available())
			current = host.Desired(current, host.Claim{
				Machine: claim.Machine, Namespace: claim.Namespace, Cluster: claim.Cluster,
				Provision: &host.Provision{Image: machine.Spec.Image, UserData: userData},
			})
			claimed := current.DeepCopy()
			current.Spec.ConsumerRef = nil
			tc.change(current)
			got := host.Reclaimed(current, claim, userData)
			if (got != nil) != tc.want {
				t.Fatalf("%s: got %v", tc.reason, got)
			}
			if got == nil {
				return
			}
			claimed.Spec.UserData = current.Spec.UserData
			if diff := cmp.Diff(claimed, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			delete(current.Annotations, infrav1.ReleaseAnnotation)
			if again := host.Reclaimed(current, claim, userData); again.Annotations[infrav1.ReleaseAnnotation] != "" {
				t.Error("the values of the machine are recorded as original values")
			}
		})
	}
}
