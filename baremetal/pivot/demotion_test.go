package pivot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// moved is a cluster after its move. The management cluster still holds the VIP.
func moved() pivot.DemotionFacts {
	infra := &infrav1.Metal3Cluster{}
	infra.Name, infra.Spec.Ironic = "c", &infrav1.Ironic{ClusterID: "c1"}
	infra.Status.Conditions = []metav1.Condition{
		{Type: infrav1.IronicEndpointReadyCondition, Status: metav1.ConditionTrue},
	}
	infra.Status.Ironic = &infrav1.IronicStatus{
		Holder: &infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: "mgmt"},
		Nodes: []infrav1.IronicNode{
			{Name: "n0", ConfigHash: "h", Armed: ptr.To(true), PodsReady: ptr.To(true)},
			{Name: "n1", ConfigHash: "h", Armed: ptr.To(false), PodsReady: ptr.To(true)},
		},
	}
	return pivot.DemotionFacts{Infra: infra, Hosts: []*bmov1alpha1.BareMetalHost{claimed()}}
}

func TestDemotionObstacles(t *testing.T) {
	const notArmed = "node n1 is not armed: the manager arms it once the cluster manages itself; move the cluster first"
	cases := map[string]struct {
		reason string
		edit   func(*pivot.DemotionFacts)
		want   []string
	}{
		"Ready": {reason: "one node that can take the VIP is enough", edit: func(*pivot.DemotionFacts) {}},
		"Paused": {
			reason: "the manager does nothing for a paused cluster",
			edit:   func(f *pivot.DemotionFacts) { f.Paused = true },
			want:   []string{"the Cluster of Metal3Cluster c is paused: complete the move with pivot resume, or use pivot unpause"},
		},
		"Foreign": {
			reason: "the hosts do not count while another Ironic answers",
			edit: func(f *pivot.DemotionFacts) {
				f.Infra.Status.Conditions[0].Status = metav1.ConditionFalse
				f.Infra.Status.Conditions[0].Message = "Conductor x answers"
				f.Hosts[0].Status.Provisioning.State = bmov1alpha1.StateProvisioning
			},
			want: []string{"Ironic endpoint: Conductor x answers"},
		},
		"NeverLooked": {
			reason: "the manager has not set the condition",
			edit:   func(f *pivot.DemotionFacts) { f.Infra.Status.Conditions = nil },
			want: []string{"Ironic endpoint: the manager has not probed the endpoint of Metal3Cluster c: " +
				"check that it runs"},
		},
		"NoEndpoint": {
			reason: "without spec.ironic no node can take the VIP",
			edit:   func(f *pivot.DemotionFacts) { f.Infra.Spec.Ironic, f.Infra.Status.Ironic = nil, nil },
			want:   []string{"Metal3Cluster c has no spec.ironic: no node can take the VIP"},
		},
		"HeldAlready": {
			reason: "a control-plane node holds the VIP already, so no operation is interrupted",
			edit: func(f *pivot.DemotionFacts) {
				f.Infra.Status.Ironic.Holder.Kind = infrav1.HolderControlPlane
				f.Infra.Status.Ironic.Nodes = nil
				f.Hosts[0].Status.Provisioning.State = bmov1alpha1.StateProvisioning
			},
		},
		"NobodyArmed": {
			reason: "the VIP would have no holder",
			edit:   func(f *pivot.DemotionFacts) { f.Infra.Status.Ironic.Nodes = f.Infra.Status.Ironic.Nodes[1:] },
			want:   []string{notArmed},
		},
		"ArmedWithoutPods": {
			reason: "an armed node without Ironic does not take the VIP",
			edit:   func(f *pivot.DemotionFacts) { f.Infra.Status.Ironic.Nodes[0].PodsReady = nil },
			want: []string{
				"node n0 is armed, and its pods of the Ironic endpoint are not ready: check these pods", notArmed,
			},
		},
		"NoNodes": {
			reason: "unknown nodes do not count as ready",
			edit:   func(f *pivot.DemotionFacts) { f.Infra.Status.Ironic.Nodes = nil },
			want: []string{"the manager has seen no node of Metal3Cluster c: " +
				"check that the API server of the cluster answers"},
		},
		"Always": {
			reason: "takeover Always requires no annotation",
			edit: func(f *pivot.DemotionFacts) {
				f.Infra.Spec.Ironic.Takeover = infrav1.TakeoverAlways
				f.Infra.Status.Ironic.Nodes = f.Infra.Status.Ironic.Nodes[1:]
			},
		},
		"Manual": {
			reason: "takeover Manual ignores the annotation",
			edit:   func(f *pivot.DemotionFacts) { f.Infra.Spec.Ironic.Takeover = infrav1.TakeoverManual },
			want: []string{"Metal3Cluster c has takeover Manual: check on the nodes that at least one is armed by its file, " +
				"then use --force"},
		},
		"Busy": {
			reason: "an image that is being written would be written again",
			edit:   func(f *pivot.DemotionFacts) { f.Hosts[0].Status.Provisioning.State = bmov1alpha1.StateProvisioning },
			want: []string{"host metal3/host-0 is provisioning: wait until it is done, " +
				"because the next Ironic would begin the operation again"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			facts := moved()
			test.edit(&facts)
			if diff := cmp.Diff(test.want, texts(pivot.DemotionObstacles(facts))); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

func TestBareNodes(t *testing.T) {
	infra := moved().Infra
	infra.Status.Ironic.Nodes[1].ConfigHash = ""
	bare, unknown := pivot.BareNodes(infra)
	if diff := cmp.Diff([]string{"n1"}, bare); diff != "" || unknown != "" {
		t.Errorf("unknown %q, -want, +got:\n%s", unknown, diff)
	}
	infra.Spec.Ironic = nil
	if bare, unknown := pivot.BareNodes(infra); bare != nil || unknown != "" {
		t.Errorf("without an endpoint: got %v, %q", bare, unknown)
	}
}
