package pivot_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// remediating returns the facts about a namespace with a Metal3Remediation.
func remediating(finalizers ...string) pivot.MoveFacts {
	var facts pivot.MoveFacts
	facts.AddRemediation(&infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{Name: "r", Finalizers: finalizers}})
	return facts
}

// pooled returns the facts about a namespace with an IPPool.
func pooled(spec, indexes map[string]any) pivot.MoveFacts {
	pools := pivot.Pools()
	pools.Items = []unstructured.Unstructured{{Object: map[string]any{
		"metadata": map[string]any{"name": "pool"}, "spec": spec, "status": map[string]any{"indexes": indexes},
	}}}
	var facts pivot.MoveFacts
	facts.AddPools(pools)
	return facts
}

// owners are facts about objects that own Machines, by their kinds.
func owners(deletions map[string]*metav1.Time) (facts pivot.MoveFacts) {
	for kind, deletion := range deletions {
		facts.AddOwner(kind, &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: "o", DeletionTimestamp: deletion}})
	}
	return facts
}

// created is a parked host with a creation time that BMO has not reconciled yet.
func created(name string, at int64, edits ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
	host := free()
	host.Name, host.CreationTimestamp = name, metav1.Unix(at, 0)
	host.Status = bmov1alpha1.BareMetalHostStatus{}
	return pausedHost(host, edits...)
}

// unpausedCluster returns a Cluster that was created some seconds after 1970.
func unpausedCluster(name string, created int64) *clusterv1.Cluster {
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(created, 0)}}
	cluster.Status.Initialization.InfrastructureProvisioned = ptr.To(true)
	cluster.Status.Initialization.ControlPlaneInitialized = ptr.To(true)
	conditions.Set(cluster, metav1.Condition{
		Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: "Initialized",
	})
	return cluster
}

// TestToPark tests hosts whose pause the manager tries before a move.
func TestToPark(t *testing.T) {
	parked := func(host *bmov1alpha1.BareMetalHost) { record(t, pausedHost(host)) }
	deleted := func(host *bmov1alpha1.BareMetalHost) { host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }
	for name, tc := range map[string]struct {
		edit func(*bmov1alpha1.BareMetalHost)
		want bool
	}{
		"Running": {func(*bmov1alpha1.BareMetalHost) {}, true},
		"Paused":  {annotated(bmov1alpha1.PausedAnnotation, "maintenance"), true},
		"Parked":  {parked, false},
		"Leaving": {annotated(infrav1.DeleteForMoveAnnotation, ""), false},
		"Deleted": {deleted, false},
	} {
		host := claimed()
		if tc.edit(host); pivot.ToPark(host) != tc.want {
			t.Errorf("%s: got %t", name, !tc.want)
		}
	}
}

// TestAPausedClusterIsDiscovered requires that clusterctl waits for Clusters that it has paused.
func TestAPausedClusterIsDiscovered(t *testing.T) {
	facts := pivot.MoveFacts{PausedSince: time.Unix(100, 0)}
	for _, created := range []int64{99, 101} {
		cluster := unpausedCluster("c", created)
		cluster.Spec.Paused = ptr.To(true)
		facts.Clusters = append(facts.Clusters, cluster)
	}
	if lost, waits := pivot.MayLeave(facts); len(lost)+len(waits) > 0 {
		t.Errorf("got %v", texts(append(lost, waits...)))
	}
}

// TestMayLeave tests the objects that a move would lose, and what ReadyForMove reports before the move.
func TestMayLeave(t *testing.T) {
	leaves := annotated(infrav1.DeleteForMoveAnnotation, "")
	deleted := &metav1.Time{Time: time.Unix(1, 0)}
	machine := func(deletion *metav1.Time, node string) *clusterv1.Machine {
		machine := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: deletion}}
		machine.Status.NodeRef.Name = node
		return machine
	}
	parked := claimed()
	parked.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	parked.Spec.BMC.CredentialsName = "bmc"
	record(t, parked)
	for name, tc := range map[string]struct {
		reason string
		facts  pivot.MoveFacts
		lost   []string
		waits  []string
	}{
		"Ready": {reason: "every host is parked, every Machine has its node", facts: pivot.MoveFacts{
			Hosts: []*bmov1alpha1.BareMetalHost{parked}, Machines: []*clusterv1.Machine{machine(nil, "n")},
			Naming: []metav1.Object{consumer()},
		}},
		"MachineDeleted": {
			reason: "the target would keep it", facts: pivot.MoveFacts{Machines: []*clusterv1.Machine{machine(deleted, "n")}},
			lost: []string{"Machine m is being deleted, and a move would lose the deletion: wait until it is gone"},
		},
		"MachineCreated": {
			reason: "clusterctl has not discovered it", facts: pivot.MoveFacts{Machines: []*clusterv1.Machine{machine(nil, "")}},
			lost: []string{"Machine m has no node: wait for it, or delete it"},
		},
		"ConsumerDeleted": {
			reason: "its host would be claimed for ever",
			facts: pivot.MoveFacts{Naming: []metav1.Object{
				&infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "m", DeletionTimestamp: deleted}},
				&infrav1.Metal3MachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "t", DeletionTimestamp: deleted}},
			}},
			lost: []string{"Metal3Machine m is being deleted, and a move would lose the deletion: wait until it is gone"},
		},
		"Remediation": {
			reason: "the host would be off for the time of the move", facts: remediating(infrav1.RemediationFinalizer),
			lost: []string{"Metal3Remediation r is running: wait until it is done, or delete it"},
		},
		"RemediationHeld": {
			reason: "it has not begun, and may never begin: the reboot would stop the management cluster", facts: remediating(),
		},
		"PoolOfNoCluster": {
			reason: "the address manager of the target does not wait for the end of the move",
			facts:  pooled(map[string]any{}, map[string]any{"data-0-pool": "10.0.0.1"}),
			waits: []string{"IPPool pool has no spec.clusterName, so the address manager of the target could give its " +
				"addresses to other machines: set it to the name of a Cluster of the namespace"},
		},
		"PoolOfCluster": {
			reason: "the address manager stops for its paused Cluster",
			facts:  pooled(map[string]any{"clusterName": "c"}, map[string]any{"data-0-pool": "10.0.0.1"}),
		},
		"PoolUnused": {reason: "no machine has an address of it", facts: pooled(map[string]any{}, map[string]any{})},
		"ClusterDeleted": {
			reason: "the deletion does not travel",
			facts: pivot.MoveFacts{Clusters: []*clusterv1.Cluster{
				{ObjectMeta: metav1.ObjectMeta{Name: "c", DeletionTimestamp: deleted}},
			}},
			lost: []string{"Cluster c is being deleted, and a move would lose the deletion: wait until it is gone"},
		},
		"OwnersDeleted": {
			reason: "their Machines are deleted a moment later",
			facts: owners(map[string]*metav1.Time{
				"KubeadmControlPlane": deleted, "MachineDeployment": deleted, "MachineSet": deleted, "MachinePool": nil,
			}),
			lost: []string{
				"KubeadmControlPlane o is being deleted, and a move would lose the deletion: wait until it is gone",
				"MachineDeployment o is being deleted, and a move would lose the deletion: wait until it is gone",
				"MachineSet o is being deleted, and a move would lose the deletion: wait until it is gone",
			},
		},
		"HostLate": {
			reason: "clusterctl has discovered the objects before it paused the Cluster",
			facts: pivot.MoveFacts{
				PausedSince: time.Unix(100, 0), Naming: []metav1.Object{consumer()},
				Hosts: []*bmov1alpha1.BareMetalHost{created("late", 101), created("before", 99), created("with", 100)},
			},
			lost: []string{"BareMetalHost late was created after clusterctl had discovered the objects, and would stay " +
				"behind: stop clusterctl, abort the move with `clusterctl metal3 pivot abort`, and move again; or delete it"},
		},
		"HostLeaves": {
			reason: "clusterctl has copied it, and deletes it",
			facts: pivot.MoveFacts{
				PausedSince: time.Unix(100, 0), Hosts: []*bmov1alpha1.BareMetalHost{created("late", 101, leaves)},
			},
		},
		"ClusterLate": {
			reason: "it uses the free hosts, which clusterctl moves with the others",
			facts: pivot.MoveFacts{
				PausedSince: time.Unix(100, 0), Clusters: []*clusterv1.Cluster{unpausedCluster("late", 101)},
			},
			lost: []string{"Cluster late was created after clusterctl had discovered the objects, and would stay behind: " +
				"stop clusterctl, abort the move with `clusterctl metal3 pivot abort`, and move again; or delete it"},
		},
		"ClusterRuns": {
			reason: "clusterctl pauses one after the other",
			facts:  pivot.MoveFacts{PausedSince: time.Unix(100, 0), Clusters: []*clusterv1.Cluster{unpausedCluster("next", 99)}},
			waits: []string{"Cluster next is not paused, so both sides would manage the free hosts: wait until clusterctl " +
				"pauses it; if you paused another Cluster yourself, unpause that"},
		},
		"ClusterMayRun": {
			reason: "clusterctl does not wait",
			facts:  pivot.MoveFacts{Clusters: []*clusterv1.Cluster{unpausedCluster("next", 99)}},
		},
		"HostCreated": {
			reason: "clusterctl does not wait",
			facts: pivot.MoveFacts{
				Naming: []metav1.Object{consumer()}, Hosts: []*bmov1alpha1.BareMetalHost{created("late", 101)},
			},
		},
		"ConsumerYoung": {
			reason: "clusterctl passes over it, and its host would be claimed by nobody",
			facts:  pivot.MoveFacts{Naming: []metav1.Object{&infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "m"}}}},
			lost: []string{"Metal3Machine m has no ownerReference, so clusterctl would leave it behind: wait until Cluster " +
				"API sets it, or delete the Metal3Machine"},
		},
		"ConsumerGone": {
			reason: "nobody would release the host in the target either",
			facts:  pivot.MoveFacts{Hosts: []*bmov1alpha1.BareMetalHost{parked}},
			waits: []string{"BareMetalHost host-0 is claimed by Metal3Machine m, which does not exist: remove " +
				"spec.consumerRef of the host"},
		},
		"SecretBehind": {
			reason: "BMO would not reach the BMC",
			facts: pivot.MoveFacts{
				Hosts: []*bmov1alpha1.BareMetalHost{parked}, Naming: []metav1.Object{consumer()},
				Secrets: map[string]*metav1.PartialObjectMetadata{"bmc": {ObjectMeta: metav1.ObjectMeta{Name: "bmc"}}},
			},
			lost: []string{"Secret bmc of host host-0 has no owner and would stay behind: set label " +
				"clusterctl.cluster.x-k8s.io/move on it, or run the manager with --keep-move-labels"},
		},
		"PauseRefused": {
			reason: "BMO's webhook lets nobody write the host, and its words say why",
			facts: pivot.MoveFacts{
				Hosts: []*bmov1alpha1.BareMetalHost{claimed()}, Naming: []metav1.Object{consumer()},
				Refusals: map[string]string{"host-0": "spec.raid is wrong", "gone": "x"},
			},
			waits: []string{"BareMetalHost host-0 cannot be paused, because the API server refuses to change it: " +
				"spec.raid is wrong: correct the host"},
		},
		"Untried": {
			reason: "nobody knows yet",
			facts:  pivot.MoveFacts{Untried: true},
			waits:  []string{"the pause of some BareMetalHosts was not tried yet: wait some seconds"},
		},
		"LabelMissing": {
			reason: "the whole kind would stay behind", facts: pivot.MoveFacts{MissingLabels: []string{"x.metal3.io: label"}},
			lost: []string{"CustomResourceDefinition x.metal3.io: label is missing: set this label, or run the manager with " +
				"--keep-move-labels"},
		},
		"HostNotParked": {
			reason: "its status would be lost",
			facts: pivot.MoveFacts{
				Hosts: []*bmov1alpha1.BareMetalHost{claimed()}, Naming: []metav1.Object{consumer()},
			},
			waits: []string{"host host-0 is being paused: wait until it is paused"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.facts.Around = []pivot.Neighbour{paused}
			lost, waits := pivot.MayLeave(tc.facts)
			if diff := cmp.Diff([][]string{tc.lost, tc.waits}, [][]string{texts(lost), texts(waits)}); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(append(lost, waits...), pivot.Obstacles(tc.facts)); diff != "" {
				t.Errorf("%s: ReadyForMove says something else, -gate +ready:\n%s", tc.reason, diff)
			}
		})
	}
}
