package pivot_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestMayLeave is about what is lost when clusterctl goes on, and about what ReadyForMove says of it beforehand.
func TestMayLeave(t *testing.T) {
	deleted := &metav1.Time{Time: time.Unix(1, 0)}
	machine := func(deletion *metav1.Time, node string) *clusterv1.Machine {
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: deletion}}
		machine.Status.NodeRef.Name = node
		return machine
	}
	parked := claimed()
	parked.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	record(t, parked)
	for name, tc := range map[string]struct {
		reason string
		facts  pivot.MoveFacts
		want   []string
	}{
		"Ready": {reason: "every host is parked, every Machine has its node", facts: pivot.MoveFacts{
			Hosts: []*bmov1alpha1.BareMetalHost{parked}, Machines: []*clusterv1.Machine{machine(nil, "n")},
		}},
		"MachineDeleted": {
			reason: "the target would keep it", facts: pivot.MoveFacts{Machines: []*clusterv1.Machine{machine(deleted, "n")}},
			want: []string{"Machine m is being deleted, which a move would forget: wait until it is gone"},
		},
		"MachineCreated": {
			reason: "clusterctl has not discovered it", facts: pivot.MoveFacts{Machines: []*clusterv1.Machine{machine(nil, "")}},
			want: []string{"Machine m has no node: wait for it, or delete it"},
		},
		"ConsumerDeleted": {
			reason: "its host would be claimed for ever",
			facts: pivot.MoveFacts{Naming: []metav1.Object{
				&infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: deleted}},
				&infrav1.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", DeletionTimestamp: deleted}},
			}},
			want: []string{"Metal3Machine m is being deleted, which a move would forget: wait until it is gone"},
		},
		"Remediation": {
			reason: "its status does not travel", facts: pivot.MoveFacts{Remediations: []string{"r"}},
			want: []string{"Metal3Remediation r is running: wait until it is done"},
		},
		"ClusterDeleted": {
			reason: "the deletion does not travel",
			facts: pivot.MoveFacts{Clusters: []*clusterv1.Cluster{
				{ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: deleted}},
			}},
			want: []string{"Cluster c is being deleted, which a move would forget: wait until it is gone"},
		},
		"HostNotParked": {
			reason: "its status would be lost", facts: pivot.MoveFacts{Hosts: []*bmov1alpha1.BareMetalHost{claimed()}},
			want: []string{"host host-0 is being paused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Around = []pivot.Neighbour{paused}
			if diff := cmp.Diff(tc.want, pivot.MayLeave(tc.facts)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			before := pivot.Obstacles(tc.facts)
			if len(tc.want) > 0 && name != "HostNotParked" && !slices.Contains(before, tc.want[0]) {
				t.Errorf("%s: ReadyForMove says %q beforehand", tc.reason, before)
			}
		})
	}
}
