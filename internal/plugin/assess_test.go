package plugin

import (
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func machineKind() schema.GroupKind {
	return clusterv1.GroupVersion.WithKind("Machine").GroupKind()
}

// copied is one side of a move: a Cluster that is paused or runs, with an epoch, and Machines.
func copied(paused bool, epoch string, machines ...string) *scope {
	cluster, infra := runningCluster("c"), runningInfra("c")
	cluster.Spec.Paused = ptr.To(paused)
	if epoch != "" {
		infra.Annotations[infrav1.MoveEpochAnnotation] = epoch
	}
	here := &scope{
		sight: &sight{
			namespace: build.DefaultNamespace, clusters: []*clusterv1.Cluster{cluster}, infras: []*infrav1.Metal3Cluster{infra},
			hosts: []*bmov1alpha1.BareMetalHost{},
		},
		objects: map[schema.GroupKind]belongings{
			clusterKind(): {"c": named("c", "")}, infraKind(): {"c": named("c", "c")}, machineKind(): {},
		},
		secrets: belongings{},
	}
	for _, name := range machines {
		here.objects[machineKind()][name] = named(name, "c")
	}
	return here
}

// beside adds Cluster d to a side. It is paused or runs, with an epoch.
func (s *scope) beside(paused bool, epoch string) *scope {
	cluster, infra := runningCluster("d"), runningInfra("d")
	cluster.Spec.Paused = ptr.To(paused)
	infra.Annotations[infrav1.MoveEpochAnnotation] = epoch
	s.clusters, s.infras = append(s.clusters, cluster), append(s.infras, infra)
	s.objects[clusterKind()]["d"], s.objects[infraKind()]["d"] = named("d", ""), named("d", "d")
	return s
}

// named is an object. The Cluster owns it, unless the name of the Cluster is empty.
func named(name, cluster string) *metav1.PartialObjectMetadata {
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: build.DefaultNamespace, Name: name,
	}}
	if cluster != "" {
		object.Labels = map[string]string{clusterv1.ClusterNameLabel: cluster}
		object.OwnerReferences = []metav1.OwnerReference{ownerOf(clusterv1.ClusterKind, cluster)}
	}
	return object
}

// nothing is a side without the Cluster.
func nothing() *scope {
	return &scope{sight: &sight{}, objects: map[schema.GroupKind]belongings{}, secrets: belongings{}}
}

// recorded sets the inventory that the manager wrote when block-move was removed.
func recorded(side *scope, inventory string) *scope {
	side.infras[0].Annotations[infrav1.MoveInventoryAnnotation] = inventory
	return side
}

// withoutInfra removes the Metal3Cluster of Cluster c. clusterctl deletes it before the Cluster.
func withoutInfra(side *scope) *scope {
	side.infras = side.infras[1:]
	delete(side.objects[infraKind()], "c")
	return side
}

// leavingInfra is a side as the plugin reads it while clusterctl deletes the Metal3Cluster of Cluster c. clusterctl
// replaces all annotations of the Metal3Cluster, also the epoch.
func leavingInfra(side *scope) *scope {
	side.infras[0].Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
	side.infras[0].DeletionTimestamp = ptr.To(metav1.Now())
	var clusters []clusterv1.Cluster
	for _, cluster := range side.clusters {
		clusters = append(clusters, *cluster)
	}
	var infras []infrav1.Metal3Cluster
	for _, infra := range side.infras {
		infras = append(infras, *infra)
	}
	side.sight = sightOf(side.namespace, side.hosts, clusters, infras)
	return side
}

// superseded is a side whose Metal3Cluster a management cluster has claimed with epoch 6.
func superseded(side *scope, manager string) *scope {
	infra := side.infras[0]
	side.claimed(pivot.SupersededMessage(infra, pivot.Claim{Epoch: 6, Manager: manager}))
	infra.Status.Ironic.ManagedElsewhere = &infrav1.IronicClaim{ManagementCluster: manager, Epoch: 6}
	return side
}

// ownSecret gives the target a host with its Secret, which the source does not have.
func ownSecret(target *scope) *scope {
	return target.put("BareMetalHost", named("own", "")).put("Secret", belongingTo("own-bmc", "BareMetalHost", "own"))
}

// labelledSecret is a Secret without an owner that moves.
func labelledSecret(name string) *metav1.PartialObjectMetadata {
	secret := named(name, "")
	secret.Labels = map[string]string{infrav1.MoveLabel: ""}
	return secret
}

func TestAssess(t *testing.T) {
	withHost := func(machines ...string) *scope {
		return copied(true, "3", machines...).put("BareMetalHost", named("host", ""))
	}
	moved := named("moved", "")
	moved.Annotations = map[string]string{infrav1.StatusOriginAnnotation: "uid"}
	ofAnother := named("spare", "other")
	ofAnother.Annotations = map[string]string{infrav1.StatusOriginAnnotation: "uid"}
	besideAnother := withHost("m").put("BareMetalHost", ofAnother)
	besideAnother.clusters = append(besideAnother.clusters, runningCluster("other"))
	using := copied(true, "3", "m").put("Secret", labelledSecret("own-bmc"), labelledSecret("ironic"))
	using.hosts = append(using.hosts, build.Host("own", build.Available()))
	using.infras = append(using.infras, runningInfra("other"))
	using.infras[1].Spec.Ironic.CredentialsRef = &corev1.LocalObjectReference{Name: "ironic"}
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		equal          bool
		want           course
	}{
		"OwnSecret": {
			"the target has a host of its own", withHost("m", "n"), ownSecret(withHost("m")), false, courseCopying,
		},
		"MovedBefore": {
			"a Cluster that runs in the target has the host", withHost("m", "n"), besideAnother, false, courseCopying,
		},
		"OwnSecretCopied": {
			"clusterctl has copied all, and deleted nothing", withHost("m", "n"), ownSecret(withHost("m", "n")), true, courseCopying,
		},
		"SecretOfAnother": {
			"another Cluster runs in the target", copied(true, "3", "m", "n"),
			copied(true, "3", "m").put("Secret", byCluster("kubeconfig", "other")), false, courseCopying,
		},
		"SecretNamed": {"objects of the target name the Secrets", copied(true, "3", "m", "n"), using, false, courseCopying},
		"SecretDeleted": {
			"clusterctl has deleted the Secret of a host", withHost("m"),
			withHost("m").put("Secret", belongingTo("bmc", "BareMetalHost", "host")), true, courseDeleting,
		},
		"HostDeleted": {
			"clusterctl has deleted the host after its Secret", copied(true, "3", "m").put("BareMetalHost"),
			copied(true, "3", "m").put("BareMetalHost", moved).put("Secret", belongingTo("bmc", "BareMetalHost", "moved")),
			true, courseDeleting,
		},
		"SecretOfClusterDeleted": {
			"clusterctl has deleted a Secret of the Cluster", copied(true, "3", "m"),
			copied(true, "3", "m").put("Secret", byCluster("kubeconfig", "c")), true, courseDeleting,
		},
		"LabelledDeleted": {
			"clusterctl may have deleted the Secret", copied(true, "3", "m"),
			copied(true, "3", "m").put("Secret", labelledSecret("any")), true, courseDeleting,
		},
		"Fresh":       {"nothing is there yet", copied(false, "2", "m"), nothing(), false, courseNone},
		"Empty":       {"there is nothing at all", nothing(), nothing(), false, courseNone},
		"Parking":     {"clusterctl has copied nothing", copied(true, "3", "m"), nothing(), false, courseCopying},
		"Copying":     {"the target has a part", copied(true, "3", "m", "n"), copied(true, "3", "m"), false, courseCopying},
		"Copied":      {"nothing was deleted", copied(true, "3", "m"), copied(true, "3", "m"), false, courseCopying},
		"GivenUp":     {"the source runs again", copied(false, "4", "m"), copied(true, "3", "m"), false, courseGivenUp},
		"Moved":       {"clusterctl is done", nothing(), copied(false, "4", "m"), false, courseArrived},
		"NotUnpaused": {"clusterctl was killed at the end", nothing(), copied(true, "3", "m"), false, courseArrived},
		"Leftover":    {"the target runs, and the source has a rest", copied(true, "3"), copied(false, "4", "m"), false, courseArrived},
		"Maintenance": {"the target was paused later: its objects are the true ones", copied(true, "3", "m"), copied(true, "5", "m"), false, courseUnclear},
		"OldRuns":     {"a leftover in the target was unpaused", copied(true, "7", "m"), copied(false, "6", "m"), false, courseUnclear},
		"LeftoversOfTwo": {
			"both run in the target", copied(true, "3", "m").beside(true, "3"), copied(false, "4", "m").beside(false, "4"), false,
			courseArrived,
		},
		"RunsOnBoth": {"the target is newer: fence the source", copied(false, "2", "m"), copied(false, "4", "m"), false, courseArrived},
		"Fenced": {
			"the target claimed it first, and the pause raised the epoch", superseded(copied(true, "7", "m"), "b"),
			copied(false, "6", "m"), false, courseArrived,
		},
		"FencedSame": {
			"the target claimed it first", superseded(copied(true, "6", "m"), "b"), copied(false, "6", "m"), false, courseArrived,
		},
		"NotFenced": {
			"the target claimed it first: fence the source", superseded(copied(false, "6", "m"), "b"), copied(false, "6", "m"),
			false, courseArrived,
		},
		"FencedTarget": {
			"the source claimed it first", copied(false, "6", "m"), superseded(copied(true, "7", "m"), ""), false, courseGivenUp,
		},
		"ClaimedByThird": {
			"a third cluster manages it", superseded(copied(true, "7", "m"), "third"), copied(false, "6", "m"), false, courseUnclear,
		},
		"BothClaimed": {
			"a third cluster manages it", superseded(copied(true, "7", "m"), "b"), superseded(copied(false, "6", "m"), ""), false,
			courseUnclear,
		},
		"TakenOver": {
			"the source took it over", superseded(copied(true, "8", "m"), "b"), copied(false, "6", "m"), false, courseUnclear,
		},
		"OneNotUnpaused": {
			"both copies of the other one are of one move", copied(true, "3", "m").beside(true, "3"),
			copied(false, "4", "m").beside(true, "3"), false, courseArrived,
		},
		"Split": {
			"each side runs one of the Clusters", copied(true, "1", "m").beside(false, "2"), copied(false, "2", "m").beside(true, "1"),
			false, courseUnclear,
		},
		"SplitPaused": {
			"the source managed the other one last", copied(true, "1", "m").beside(true, "3"),
			copied(false, "2", "m").beside(true, "1"), false, courseUnclear,
		},
		"SplitRuns": {
			"no move has brought the other one", copied(true, "1", "m").beside(true, "2"), copied(false, "2", "m").beside(false, "2"),
			false, courseUnclear,
		},
		"Deleting": {
			"the inventory has what is gone", recorded(copied(true, "3", "m"), `{"Machine":["m","n"]}`),
			copied(true, "3", "m", "n"), false, courseDeleting,
		},
		"InfraDeleted": {
			"clusterctl has deleted the Metal3Cluster, and the target was unpaused", withoutInfra(copied(true, "3")),
			copied(false, "4", "m"), false, courseArrived,
		},
		"InfraDeletedOfOne": {
			"both run in the target", withoutInfra(copied(true, "3").beside(true, "3")),
			copied(false, "4", "m").beside(false, "4"), false, courseArrived,
		},
		"InfraDeletedPaused": {
			"nothing runs", withoutInfra(copied(true, "3")), copied(true, "3", "m"), false, courseDeleting,
		},
		"InfraLeaving": {
			"clusterctl was killed before it removed the finalizer of the Metal3Cluster", leavingInfra(copied(true, "")),
			copied(true, "3", "m"), false, courseDeleting,
		},
		"InfraLeavingArrived": {
			"clusterctl was killed there, and the target was unpaused", leavingInfra(copied(true, "")), copied(false, "4", "m"),
			false, courseArrived,
		},
		"InfraDeletedRuns": {
			"it runs on both sides", withoutInfra(copied(false, "3")), copied(false, "4", "m"), false, courseUnclear,
		},
		"InfraDeletedSplit": {
			"the source manages the other one", withoutInfra(copied(true, "3").beside(false, "4")),
			copied(false, "4", "m").beside(true, "3"), false, courseUnclear,
		},
		"Contradiction": {
			"clusterctl deletes nothing before all is copied", recorded(copied(true, "3", "m"), `{"Machine":["m","n"]}`),
			copied(true, "3", "n"), false, courseUnclear,
		},
		"DeletingBesideSecret": {
			"clusterctl does not move the Secret", recorded(copied(true, "3", "m"), `{"Machine":["m","n"]}`).
				put("Secret", belongingTo("x", "ExternalSecret", "x")), copied(true, "3", "m", "n"), false, courseDeleting,
		},
		"DeletingLeafBesideSecret": {
			"clusterctl does not move the Secret", copied(true, "3", "m").put("Secret", belongingTo("x", "ExternalSecret", "x")),
			copied(true, "3", "m", "n"), true, courseDeleting,
		},
		"DeletingLeaf": {"all that is left is equal", copied(true, "3", "m"), copied(true, "3", "m", "n"), true, courseDeleting},
		"DeletedByUser": {
			"the copy is older than what is in the source", copied(true, "3", "m"), copied(true, "3", "m", "n"), false, courseUnclear,
		},
		"HalfAndOlder": {
			"equal as far as it goes, but not complete", copied(true, "3", "m", "o"), copied(true, "3", "m", "n"), true, courseUnclear,
		},
	} {
		t.Run(name, func(t *testing.T) {
			tc.target.identity = "b"
			different := "Machine m"
			if tc.equal {
				different = ""
			}
			got := assess(tc.source, tc.target, different)
			if got.Course != tc.want || (got.Course == courseUnclear) != (len(got.Doubts) > 0) {
				t.Errorf("%s: got %+v, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestBroughtBy expects the Clusters of the target that arrived with a complete move.
func TestBroughtBy(t *testing.T) {
	remembered := pivot.Departure{Infras: map[string]pivot.Epoch{"c": 3}}
	for name, tc := range map[string]struct {
		reason         string
		source, target *scope
		departed       pivot.Departure
		want           int
		refused        string
	}{
		"There":       {"the source still has it", copied(true, "3"), copied(true, "3", "m"), pivot.Departure{}, 1, ""},
		"Remembered":  {"the source has had it", nothing(), copied(true, "3", "m"), remembered, 1, ""},
		"Runs":        {"there is nothing to do", nothing(), copied(false, "4", "m"), remembered, 0, ""},
		"PausedLater": {"another move or a user has paused it since", nothing(), copied(true, "5", "m"), remembered, 0, ""},
		"Older": {
			"the Cluster has moved to a third cluster", nothing(), copied(true, "1", "m"), remembered, 0,
			"has move epoch 1 in the target, and the source moved it away with move epoch 3",
		},
		"PausedLaterBeside": {
			"another move or a user has paused one of them since", copied(true, "3").beside(true, "3"),
			copied(true, "5", "m").beside(true, "3"), remembered, 1, "",
		},
		"InfraDeleted": {
			"clusterctl has deleted the Metal3Cluster", withoutInfra(copied(true, "3")), copied(true, "3", "m"), remembered, 1, "",
		},
		"InfraDeletedPausedLater": {
			"another move or a user has paused it since", withoutInfra(copied(true, "3")), copied(true, "5", "m"), remembered, 0,
			"",
		},
		"InfraDeletedNoRecord": {
			"the source still has the Cluster", withoutInfra(copied(true, "3")), copied(true, "3", "m"), pivot.Departure{}, 1, "",
		},
		"Another": {
			"another move brings it, or a user has paused it", nothing(), copied(true, "3", "m"),
			pivot.Departure{Infras: map[string]pivot.Epoch{"d": 2}}, 0, "",
		},
		"Reinstalled": {
			"the source that could say what is missing is gone", nothing(), copied(true, "3", "m"), pivot.Departure{}, 0,
			"the source has no record of a move",
		},
		"Incomplete": {
			"a Machine is in neither cluster", nothing(), recorded(copied(true, "3", "m"), `{"Machine":["m","n"]}`), remembered, 1,
			"Machine n existed when clusterctl began to copy",
		},
	} {
		brought, refusals := broughtBy(tc.source, tc.target, tc.departed)
		if len(brought.clusters) != tc.want || len(refusals) > 1 || tc.refused == "" != (len(refusals) == 0) ||
			len(refusals) > 0 && !strings.Contains(refusals[0].Message, tc.refused) {
			t.Errorf("%s: %s: got %d Clusters, refused %+v", name, tc.reason, len(brought.clusters), refusals)
		}
	}
}
