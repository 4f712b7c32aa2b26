package plugin

import (
	"cmp"
	"maps"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// course is the progress of a move of a namespace, as the objects of both sides show it.
type course string

// Values of course.
const (
	// courseNone means that no move is under way: the Clusters of the source run, and the target has no copy of them.
	courseNone course = "None"

	// courseGivenUp means that the Clusters of the source run, and that paused copies of them are in the target.
	courseGivenUp course = "GivenUp"

	// courseCopying means that the Clusters of the source are paused, and that the source still has all objects.
	courseCopying course = "Copying"

	// courseDeleting means that clusterctl has begun to delete in the source. The target has all objects then.
	courseDeleting course = "Deleting"

	// courseArrived means that the Clusters of the target run, or that only they exist.
	courseArrived course = "Arrived"

	// courseUnclear means that the objects of both sides contradict one another.
	courseUnclear course = "Unclear"
)

// located identifies an object by its kind and name.
type located struct {
	kind schema.GroupKind
	name string
}

func (l located) String() string { return l.kind.Kind + " " + l.name }

// assessment is the observed progress of a move.
type assessment struct {
	Course course

	// Doubts are the reasons for courseUnclear.
	Doubts []pivot.Obstacle

	// Ambiguous are objects in the target only. Either clusterctl has deleted them in the source, or a user has, between
	// two moves.
	Ambiguous []located
}

// assess returns the progress of a move. The first row that matches counts.
//
//	source                                     target                 course
//	no Cluster                                 no Cluster             None
//	no Cluster                                 any Cluster            Arrived
//	any                                        any                    Unclear, if the epochs have contradictions
//	any                                        a newer copy, runs     Arrived
//	all Clusters run                           no copy                None
//	all Clusters run                           paused copies          GivenUp
//	paused, lost what its inventory has        all that is left       Deleting
//	paused, lost what its inventory has        lacks what is left     Unclear
//	paused                                     nothing but copies     Copying
//	paused, and equal to what is in the target has more               Deleting
//	paused, not equal                          has more               Unclear
//
// Different is an object that is not equal on both sides, and empty if there is none. The inventory lists the objects
// of the source at the time when clusterctl began to copy.
func assess(source, target *scope, different string) assessment {
	names, running, paused := arrivingClusters(source, target)
	doubts := contradictions(source, target, running)
	switch {
	case len(source.clusters) == 0 && len(names) == 0:
		return assessment{Course: courseNone}
	case len(source.clusters) == 0:
		return assessment{Course: courseArrived}
	case len(doubts) > 0:
		return assessment{Course: courseUnclear, Doubts: doubts}
	case running:
		return assessment{Course: courseArrived}
	case !anyPaused(source.clusters) && paused:
		return assessment{Course: courseGivenUp}
	case !anyPaused(source.clusters):
		return assessment{Course: courseNone}
	}
	var found assessment
	found.compare(source, target, different)
	return found
}

// compare sets the course of a move whose Clusters are paused in the source and do not run in the target.
func (a *assessment) compare(source, target *scope, different string) {
	arriving := arrivalOf(source, target)
	a.Ambiguous = arriving.onlyHere()
	missing := arriving.notHere()
	lost := lostSince(source)
	switch {
	case len(lost) > 0 && len(missing) == 0, len(a.Ambiguous) > 0 && different == "" && len(missing) == 0:
		a.Course = courseDeleting
	case len(lost) > 0:
		a.Course = courseUnclear
		a.Doubts = append(a.Doubts, pivot.AboutNothing().Blocks(pivot.CodeMoveUnclear,
			"create in the target what is missing there, with all labels and annotations; or restore what the source has lost "+
				"from a backup",
			"the source has lost %s since clusterctl began to copy, and %s is not in the target",
			pivot.Enumerate(lost), pivot.Enumerate(missing)))
	case len(a.Ambiguous) == 0:
		a.Course = courseCopying
	case len(missing) == 0:
		a.Course = courseUnclear
		a.Doubts = append(a.Doubts, pivot.AboutNothing().Blocks(pivot.CodeMoveUnclear,
			"if clusterctl has deleted it in the source, make both objects equal, and complete the move with pivot resume; if "+
				"you have deleted it, create it in the source again",
			"%s is in the target only, and %s differs between source and target", pivot.Enumerate(a.Ambiguous), different))
	default:
		remedy := "if you have deleted it in the source, remove it with pivot clean --target"
		if slices.ContainsFunc(a.Ambiguous, func(each located) bool { return each.kind == secretKind() }) {
			remedy += ", and delete Secrets in the target with kubectl"
		}
		a.Course = courseUnclear
		a.Doubts = append(a.Doubts, pivot.AboutNothing().Blocks(pivot.CodeMoveUnclear, remedy,
			"%s is in the target only, and %s is in the source only", pivot.Enumerate(a.Ambiguous), pivot.Enumerate(missing)))
	}
}

func isPaused(cluster *clusterv1.Cluster) bool { return ptr.Deref(cluster.Spec.Paused, false) }

func anyPaused(clusters []*clusterv1.Cluster) bool { return slices.ContainsFunc(clusters, isPaused) }

// arrivingClusters are the Clusters of the target that the source has or had, and whether any of them runs or is
// paused.
func arrivingClusters(source, target *scope) (names []string, running, paused bool) {
	for _, cluster := range target.clusters {
		same := func(other *clusterv1.Cluster) bool { return other.Name == cluster.Name }
		if len(source.clusters) > 0 && !slices.ContainsFunc(source.clusters, same) {
			continue
		}
		names = append(names, cluster.Name)
		running, paused = running || !isPaused(cluster), paused || isPaused(cluster)
	}
	return names, running, paused
}

// lostSince returns the objects of the inventories that the source has lost.
func lostSince(source *scope) []located {
	var lost []located
	for _, cluster := range source.clusters {
		same := func(infra *infrav1.Metal3Cluster) bool { return source.clusterOf(infra) == cluster }
		ours := cluster.Spec.InfrastructureRef.Kind == "Metal3Cluster"
		if ours && !slices.ContainsFunc(source.infras, same) {
			lost = append(lost, located{infraKind(), cluster.Spec.InfrastructureRef.Name})
		}
	}
	for _, infra := range source.infras {
		inventory, err := pivot.InventoryOf(infra)
		if err != nil {
			continue
		}
		for _, kind := range source.kinds() {
			for _, name := range inventory[kind.Kind] {
				if _, exists := source.objects[kind][name]; !exists {
					lost = append(lost, located{kind, name})
				}
			}
		}
	}
	return lost
}

// kinds returns the kinds of a side that could move, in a stable order.
func (s *scope) kinds() []schema.GroupKind {
	return slices.SortedFunc(maps.Keys(s.objects), func(x, y schema.GroupKind) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Group, y.Group))
	})
}

// hostKindOf is the kind BareMetalHost.
func hostKindOf() schema.GroupKind {
	return bmov1alpha1.GroupVersion.WithKind("BareMetalHost").GroupKind()
}

func infraKind() schema.GroupKind { return infrav1.GroupVersion.WithKind("Metal3Cluster").GroupKind() }

func secretKind() schema.GroupKind { return schema.GroupKind{Kind: "Secret"} }

// notHere returns the objects of the source that move and have not arrived.
func (a arrival) notHere() []located {
	var missing []located
	for _, kind := range append(a.from.kinds(), secretKind()) {
		here, moving := a.all(kind), a.from.belongingsOf(kind)
		for _, name := range sortedKeys(moving) {
			if _, exists := here[name]; !exists && a.from.takes(kind, moving[name]) {
				missing = append(missing, located{kind, name})
			}
		}
	}
	return missing
}

// onlyHere returns the objects in the target only that cameAlong, and the Secrets that mayHaveArrived.
func (a arrival) onlyHere() []located {
	var found []located
	for _, kind := range append(a.from.kinds(), secretKind()) {
		from, here := a.from.all(kind), a.belongingsOf(kind)
		for _, name := range sortedKeys(here) {
			_, arrives := from[name]
			isSecret := kind == secretKind()
			if !arrives && (a.cameAlong(here[name]) || isSecret && a.mayHaveArrived(here[name])) {
				found = append(found, located{kind, name})
			}
		}
	}
	return found
}

// cameAlong returns true for an object in the target only that belongs to a Cluster of the source, or arrived with a
// move. An object of another Cluster that runs in the target does not count: the target manages it.
func (a arrival) cameAlong(object *metav1.PartialObjectMetadata) bool {
	_, moved := object.Annotations[infrav1.StatusOriginAnnotation]
	owner := belongsTo(object)
	arrives := func(cluster *clusterv1.Cluster) bool { return cluster.Name == owner }
	runs := func(cluster *clusterv1.Cluster) bool { return cluster.Name == owner && !isPaused(cluster) }
	return slices.ContainsFunc(a.from.clusters, arrives) || moved && !slices.ContainsFunc(a.clusters, runs)
}

// mayHaveArrived returns true for a Secret in the target only that may have come with a move: the Secret of a host
// belongs to no Cluster. The first row that matches counts.
//
//	Secret that belongs to no Cluster of the source      may have arrived
//	has an owner that the source has                     yes: clusterctl deletes the Secret before its owner
//	has any other owner, or belongs to another Cluster   no: if its owner arrived, the owner counts
//	is named by an object that the source does not have  no: the same
//	any other                                            yes
func (a arrival) mayHaveArrived(secret *metav1.PartialObjectMetadata) bool {
	isNamed := func(infra *infrav1.Metal3Cluster) bool {
		return !a.arrives(infra.Name) && slices.Contains(pivot.NamedSecrets(infra), secret.Name)
	}
	switch {
	case a.from.hasOwnerOf(secret):
		return true
	case len(secret.OwnerReferences) > 0, belongsTo(secret) != "":
		return false
	default:
		return a.named[secret.Name] == "" && !slices.ContainsFunc(a.infras, isNamed)
	}
}

// hasOwnerOf returns true if a side has an owner of an object of the other side, where the owner has another UID.
func (s *scope) hasOwnerOf(object *metav1.PartialObjectMetadata) bool {
	for kind, objects := range s.objects {
		for _, owner := range object.OwnerReferences {
			if _, exists := objects[owner.Name]; exists && owner.Kind == kind.Kind {
				return true
			}
		}
	}
	return false
}

// ofClass returns true for a ClusterClass, and for an object with a ClusterClass as owner.
func ofClass(object *metav1.PartialObjectMetadata) bool {
	owned := func(owner metav1.OwnerReference) bool { return owner.Kind == clusterv1.ClusterClassKind }
	return object.GroupVersionKind().Kind == clusterv1.ClusterClassKind ||
		slices.ContainsFunc(object.OwnerReferences, owned)
}
