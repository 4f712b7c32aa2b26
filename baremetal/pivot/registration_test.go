package pivot_test

import (
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestRegistrationOf(t *testing.T) {
	asked := func(node string) func(*bmov1alpha1.BareMetalHost) {
		return annotated(infrav1.LostRegistrationAnnotation, node)
	}
	for name, tc := range map[string]struct {
		reason string
		node   string
		edit   func(*bmov1alpha1.BareMetalHost)
		want   pivot.Registration
	}{
		"Same":     {"BMO has saved it", "uuid", nil, pivot.RegistrationKept},
		"Lost":     {"Ironic has another node than the one that BMO has saved", "other", nil, pivot.RegistrationLost},
		"Absent":   {"BMO has yet to register it", "", nil, pivot.RegistrationKept},
		"Repeated": {"once for each node", "other", asked("other"), pivot.RegistrationRepeated},
		"Again":    {"the next Ironic has another node", "third", asked("other"), pivot.RegistrationLost},
		"Saved":    {"BMO waits long after failures", "uuid", asked("uuid"), pivot.RegistrationSaved},
		"NoID": {"BMO has never registered it", "other", func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.ID = ""
		}, pivot.RegistrationKept},
		"Paused":   {"a user paused the host", "other", annotated(bmov1alpha1.PausedAnnotation, ""), pivot.RegistrationKept},
		"Ours":     {"a move is in progress", "other", annotated(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider), pivot.RegistrationKept},
		"Detached": {"BMO keeps the ID and does not register it", "other", annotated(bmov1alpha1.DetachedAnnotation, ""), pivot.RegistrationKept},
		"DetachedLater": {"BMO deprovisions it first", "other", func(host *bmov1alpha1.BareMetalHost) {
			annotated(bmov1alpha1.DetachedAnnotation, "")(host)
			host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
		}, pivot.RegistrationLost},
		"Deleting": {"BMO removes the node", "other", func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateDeleting
		}, pivot.RegistrationKept},
		"Deleted": {"BMO deprovisions it first", "other", func(host *bmov1alpha1.BareMetalHost) {
			host.DeletionTimestamp = &metav1.Time{Time: seenAt.Time}
		}, pivot.RegistrationLost},
		"Leaving": {"another management cluster manages the host", "other", annotated(infrav1.DeleteForMoveAnnotation, ""), pivot.RegistrationKept},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			if tc.edit != nil {
				tc.edit(host)
			}
			if got := pivot.RegistrationOf(host, tc.node); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}
