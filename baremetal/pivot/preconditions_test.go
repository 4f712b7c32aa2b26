package pivot_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// movable is a namespace that clusterctl would move.
func movable() pivot.MoveScope {
	cluster := &clusterv1.Cluster{}
	cluster.Name = "c"
	cluster.Spec.ControlPlaneRef.Name = "kcp"
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue},
	}
	infra := &infrav1.Metal3Cluster{}
	infra.Name, infra.Annotations = "c", map[string]string{infrav1.BlockMoveAnnotation: ""}
	machine := &clusterv1.Machine{}
	machine.Name = "m"
	return pivot.MoveScope{
		Clusters: []*clusterv1.Cluster{cluster}, Machines: []*clusterv1.Machine{machine},
		Infras: []*infrav1.Metal3Cluster{infra}, Hosts: 1, Around: []pivot.Neighbour{{Name: "c"}},
	}
}

func TestPreconditions(t *testing.T) {
	now := metav1.Now()
	cases := map[string]struct {
		reason string
		edit   func(*pivot.MoveScope)
		want   []string
	}{
		"Movable": {
			reason: "all is as clusterctl wants it",
			edit:   func(*pivot.MoveScope) {},
		},
		"MachinesOnly": {
			reason: "a control plane without an object of its own has the condition only",
			edit: func(s *pivot.MoveScope) {
				s.Clusters[0].Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
				s.Clusters[0].Status.Initialization.ControlPlaneInitialized = nil
			},
		},
		"Empty": {
			reason: "a wrong namespace must not look like success",
			edit:   func(s *pivot.MoveScope) { *s = pivot.MoveScope{} },
			want:   []string{"no Cluster has a Metal3Cluster, and there is no host: name another namespace with --namespace"},
		},
		"HostsAlone": {
			reason: "hosts move with their namespace, and only a Cluster gets them parked",
			edit:   func(s *pivot.MoveScope) { *s = pivot.MoveScope{Hosts: 3} },
			want: []string{"no Cluster has a Metal3Cluster, so nobody pauses the 3 hosts and keeps their status: " +
				"move them together with a Cluster"},
		},
		"Deleting": {
			reason: "the deletion would not travel, and one reason is enough",
			edit: func(s *pivot.MoveScope) {
				s.Clusters[0].DeletionTimestamp, s.Clusters[0].Spec.Paused = &now, ptr.To(true)
			},
			want: []string{"Cluster c is being deleted, which a move would forget: wait until it is gone"},
		},
		"Paused": {
			reason: "clusterctl refuses, and a move that was given up leaves this behind",
			edit:   func(s *pivot.MoveScope) { s.Clusters[0].Spec.Paused = ptr.To(true) },
			want:   []string{"Cluster c is paused: a move is under way or was given up; wait for it, or unpause the Cluster"},
		},
		"PausedByAnnotation": {
			reason: "clusterctl refuses this as well",
			edit: func(s *pivot.MoveScope) {
				s.Clusters[0].Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			},
			want: []string{"Cluster c is paused: remove its annotation cluster.x-k8s.io/paused"},
		},
		"NotProvisioned": {
			reason: "clusterctl refuses",
			edit:   func(s *pivot.MoveScope) { s.Clusters[0].Status.Initialization.InfrastructureProvisioned = nil },
			want:   []string{"the infrastructure of Cluster c is not provisioned: wait for it"},
		},
		"NoCondition": {
			reason: "clusterctl refuses a condition that is missing like one that is false",
			edit:   func(s *pivot.MoveScope) { s.Clusters[0].Status.Conditions = nil },
			want:   []string{"the control plane of Cluster c is not initialized: wait for it"},
		},
		"NotInitialized": {
			reason: "with an object for the control plane, the field counts besides",
			edit:   func(s *pivot.MoveScope) { s.Clusters[0].Status.Initialization.ControlPlaneInitialized = ptr.To(false) },
			want:   []string{"the control plane of Cluster c is not initialized: wait for it"},
		},
		"PausedClass": {
			reason: "clusterctl refuses",
			edit:   func(s *pivot.MoveScope) { s.PausedClasses = []string{"class"} },
			want: []string{"ClusterClass class is paused: a move is under way or was given up; wait for it, " +
				"or remove its annotation cluster.x-k8s.io/paused"},
		},
		"NoGate": {
			reason: "the annotation counts only if it is there before the Cluster is paused",
			edit:   func(s *pivot.MoveScope) { s.Infras[0].Annotations = nil },
			want: []string{"Metal3Cluster c lacks annotation clusterctl.cluster.x-k8s.io/block-move, so clusterctl would not " +
				"wait until its hosts are paused: the manager sets it, look at its log"},
		},
		"MachineDeleting": {
			reason: "it would arrive alive",
			edit:   func(s *pivot.MoveScope) { s.Machines[0].DeletionTimestamp = &now },
			want:   []string{"Machine m is being deleted, which a move would forget: wait until it is gone"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			scope := movable()
			test.edit(&scope)
			if diff := cmp.Diff(test.want, pivot.Preconditions(scope)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

func TestStrayObstacle(t *testing.T) {
	cases := map[string]struct {
		reason string
		secret metav1.ObjectMeta
		want   string
	}{
		"Owned":    {"it moves with its owner", metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Name: "h"}}}, ""},
		"Labelled": {"only the key counts", metav1.ObjectMeta{Labels: map[string]string{infrav1.MoveLabel: ""}}, ""},
		"Stray": {"nothing takes it along", metav1.ObjectMeta{Name: "s"}, "Secret s of host h has no owner and would stay " +
			"behind: set label clusterctl.cluster.x-k8s.io/move on it, or run the manager with --keep-move-labels"},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			if got := pivot.StrayObstacle("h", &test.secret); got != test.want {
				t.Errorf("%s: got %q, want %q", test.reason, got, test.want)
			}
		})
	}
}
