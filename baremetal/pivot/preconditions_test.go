package pivot_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// movable is a namespace that clusterctl would move.
func movable() pivot.MoveFacts {
	cluster := &clusterv1.Cluster{}
	cluster.Namespace, cluster.Name = "metal3", "c"
	cluster.Spec.ControlPlaneRef.Name = "kcp"
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	cluster.Status.Conditions = []metav1.Condition{
		{Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue},
	}
	infra := &infrav1.Metal3Cluster{}
	infra.Name, infra.Annotations = "c", map[string]string{infrav1.BlockMoveAnnotation: ""}
	machine := &clusterv1.Machine{}
	machine.Name, machine.Status.NodeRef.Name = "m", "node"
	return pivot.MoveFacts{
		Clusters: []*clusterv1.Cluster{cluster}, Machines: []*clusterv1.Machine{machine},
		Infras: []*infrav1.Metal3Cluster{infra}, Hosts: []*bmov1alpha1.BareMetalHost{claimed(), free()},
		Around: []pivot.Neighbour{runs}, Naming: []metav1.Object{consumer()},
	}
}

const pausedCluster = "Cluster c is paused: wait for a move in progress; complete an interrupted move with pivot " +
	"resume, or abort it with pivot abort; without a move, use `clusterctl metal3 pivot unpause --namespace metal3`"

// TestRefusals tests the state in which clusterctl itself would not begin.
func TestRefusals(t *testing.T) {
	now := metav1.Now()
	cases := map[string]struct {
		reason string
		edit   func(*pivot.MoveFacts)
		want   []string
	}{
		"Movable": {
			reason: "all is as clusterctl wants it",
			edit:   func(*pivot.MoveFacts) {},
		},
		"Orphan": {
			reason: "nobody would take the pause of such a host back",
			edit: func(s *pivot.MoveFacts) {
				s.Hosts[0].Labels[clusterv1.ClusterNameLabel] = "gone"
			},
			want: []string{"host host-0 serves Cluster gone, which does not exist: delete the Metal3Machine m that claims " +
				"the host, or remove spec.consumerRef of the host"},
		},
		"MachinesOnly": {
			reason: "a control plane without an object of its own has the condition only",
			edit: func(s *pivot.MoveFacts) {
				s.Clusters[0].Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{}
				s.Clusters[0].Status.Initialization.ControlPlaneInitialized = nil
			},
		},
		"Deleting": {
			reason: "the deletion would not travel, and one reason is enough",
			edit: func(s *pivot.MoveFacts) {
				s.Clusters[0].DeletionTimestamp, s.Clusters[0].Spec.Paused = &now, ptr.To(true)
			},
			want: []string{"Cluster c is being deleted, and a move would lose the deletion: wait until it is gone"},
		},
		"Paused": {
			reason: "clusterctl refuses, and a move that was given up leaves this behind",
			edit:   func(s *pivot.MoveFacts) { s.Clusters[0].Spec.Paused = ptr.To(true) },
			want:   []string{pausedCluster},
		},
		"PausedByAnnotation": {
			reason: "clusterctl refuses this as well",
			edit: func(s *pivot.MoveFacts) {
				s.Clusters[0].Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			},
			want: []string{"Cluster c is paused: remove its annotation cluster.x-k8s.io/paused"},
		},
		"NotProvisioned": {
			reason: "clusterctl refuses",
			edit:   func(s *pivot.MoveFacts) { s.Clusters[0].Status.Initialization.InfrastructureProvisioned = nil },
			want:   []string{"the infrastructure of Cluster c is not provisioned: wait for it"},
		},
		"NoCondition": {
			reason: "clusterctl refuses a condition that is missing like one that is false",
			edit:   func(s *pivot.MoveFacts) { s.Clusters[0].Status.Conditions = nil },
			want:   []string{"the control plane of Cluster c is not initialized: wait for it"},
		},
		"NotInitialized": {
			reason: "with an object for the control plane, the field counts besides",
			edit:   func(s *pivot.MoveFacts) { s.Clusters[0].Status.Initialization.ControlPlaneInitialized = ptr.To(false) },
			want:   []string{"the control plane of Cluster c is not initialized: wait for it"},
		},
		"PausedClass": {
			reason: "clusterctl refuses",
			edit: func(s *pivot.MoveFacts) {
				s.AddClass(&metav1.ObjectMeta{Name: "other"})
				s.AddClass(&metav1.ObjectMeta{Name: "class", Annotations: map[string]string{clusterv1.PausedAnnotation: ""}})
			},
			want: []string{"ClusterClass class is paused: a move is under way or was given up; wait for it, " +
				"or remove its annotation cluster.x-k8s.io/paused"},
		},
		"NoGate": {
			reason: "the annotation counts only if it is there before the Cluster is paused",
			edit:   func(s *pivot.MoveFacts) { s.Infras[0].Annotations = nil },
			want: []string{"Metal3Cluster c lacks annotation clusterctl.cluster.x-k8s.io/block-move, so clusterctl would not " +
				"wait until its hosts are paused: the manager sets it; see its log"},
		},
		"External": {
			reason: "no controller of this provider sets the annotation",
			edit: func(s *pivot.MoveFacts) {
				s.Infras[0].Annotations = map[string]string{clusterv1.ManagedByAnnotation: "others"}
			},
			want: []string{"Metal3Cluster c lacks annotation clusterctl.cluster.x-k8s.io/block-move, so clusterctl would not " +
				"wait until its hosts are paused: an external system manages it; remove its annotation " +
				"cluster.x-k8s.io/managed-by, and the manager sets block-move"},
		},
		"ExternalBesideGate": {
			reason: "the annotation of the other one keeps clusterctl waiting for all hosts",
			edit: func(s *pivot.MoveFacts) {
				external := &infrav1.Metal3Cluster{}
				external.Name, external.Annotations = "d", map[string]string{clusterv1.ManagedByAnnotation: "others"}
				s.Infras = append(s.Infras, external)
			},
		},
		"NoGateWhilePaused": {
			reason: "the pause has removed the annotation, and is named itself",
			edit: func(s *pivot.MoveFacts) {
				s.Infras[0].Annotations, s.Clusters[0].Spec.Paused = nil, ptr.To(true)
				s.Clusters[0].Spec.InfrastructureRef.Name = "c"
			},
			want: []string{pausedCluster},
		},
		"Scaling": {
			reason: "a handover needs nodes",
			edit: func(s *pivot.MoveFacts) {
				s.Clusters[0].Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
					DesiredReplicas: ptr.To[int32](3), Replicas: ptr.To[int32](2), AvailableReplicas: ptr.To[int32](1),
				}
			},
			want: []string{"the control plane of Cluster c has 2 replicas, 1 of them available, and has to have 3: wait until " +
				"it is scaled"},
		},
		"Surging": {
			reason: "a rollout has one replica too many",
			edit: func(s *pivot.MoveFacts) {
				s.Clusters[0].Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
					DesiredReplicas: ptr.To[int32](3), Replicas: ptr.To[int32](4), AvailableReplicas: ptr.To[int32](3),
				}
			},
			want: []string{"the control plane of Cluster c has 4 replicas, 3 of them available, and has to have 3: wait until " +
				"it is scaled"},
		},
		"Scaled": {
			reason: "as it has to be, or Cluster API has not looked",
			edit: func(s *pivot.MoveFacts) {
				s.Clusters[0].Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{
					DesiredReplicas: ptr.To[int32](1), Replicas: ptr.To[int32](1), AvailableReplicas: ptr.To[int32](1),
				}
			},
		},
		"Lost": {
			reason: "the move does not bring its host back",
			edit: func(s *pivot.MoveFacts) {
				lost := consumer()
				lost.Status.Conditions = []metav1.Condition{{
					Type: infrav1.HostAssociatedCondition, Status: metav1.ConditionFalse, Reason: infrav1.HostLostReason,
					Message: "BareMetalHost rack-1 no longer exists. Restore it, or delete Machine m to replace it.",
				}}
				s.Naming = []metav1.Object{lost}
			},
			want: []string{"Metal3Machine m lost its host, which a move does not restore: BareMetalHost rack-1 no longer exists. " +
				"Restore it, or delete Machine m to replace it."},
		},
		"MachineDeleting": {
			reason: "it would arrive alive",
			edit: func(s *pivot.MoveFacts) {
				s.Machines[0].DeletionTimestamp, s.Machines[0].Status.NodeRef = &now, clusterv1.MachineNodeReference{}
			},
			want: []string{"Machine m is being deleted, and a move would lose the deletion: wait until it is gone"},
		},
		"NoNode": {
			reason: "clusterctl refuses",
			edit:   func(s *pivot.MoveFacts) { s.Machines[0].Status.NodeRef = clusterv1.MachineNodeReference{} },
			want:   []string{"Machine m has no node: wait for it, or delete it"},
		},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			facts := movable()
			test.edit(&facts)
			if diff := cmp.Diff(test.want, texts(pivot.Obstacles(facts))); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", test.reason, diff)
			}
		})
	}
}

// TestOrderDoesNotMatter reverses the facts, because a cache returns them in any order.
func TestOrderDoesNotMatter(t *testing.T) {
	facts := pivot.MoveFacts{
		Around: []pivot.Neighbour{{Paused: true}}, PausedClasses: []string{"b", "a"}, Remediations: []string{"b", "a"},
	}
	facts.BareNodes, facts.OpenPools = []string{"b", "a"}, []string{"b", "a"}
	for _, name := range []string{"b", "a"} {
		named := metav1.ObjectMeta{Name: name, Namespace: "metal3"}
		facts.Clusters = append(facts.Clusters, &clusterv1.Cluster{ObjectMeta: named})
		facts.Machines = append(facts.Machines, &clusterv1.Machine{ObjectMeta: named})
		facts.Infras = append(facts.Infras, &infrav1.Metal3Cluster{ObjectMeta: named})
		facts.Hosts = append(facts.Hosts, &bmov1alpha1.BareMetalHost{ObjectMeta: named})
		facts.AddDefinition("baremetalhosts.metal3.io", nil)
	}
	before := pivot.Obstacles(facts)
	if len(before) < 12 {
		t.Fatalf("too little to turn around: %q", before)
	}
	for _, names := range [][]string{facts.PausedClasses, facts.Remediations, facts.BareNodes, facts.MissingLabels, facts.OpenPools} {
		slices.Reverse(names)
	}
	slices.Reverse(facts.Clusters)
	slices.Reverse(facts.Machines)
	slices.Reverse(facts.Infras)
	slices.Reverse(facts.Hosts)
	if diff := cmp.Diff(before, pivot.Obstacles(facts)); diff != "" {
		t.Errorf("the obstacles, -before, +turned:\n%s", diff)
	}
}
