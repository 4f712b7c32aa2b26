package plugin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func setupClean(set *pflag.FlagSet) runner {
	c := &recovery{}
	set.BoolVar(&c.ofTarget, "target", false,
		"remove the leftovers of an incomplete move in the target, instead of the source")
	set.BoolVar(&c.force, "force", false,
		"with --target: objects that are in the target only were deleted in the source by a user, and not by clusterctl")
	return c.setup(set, "PivotClean", (*recovery).clean)
}

// cleanTarget removes the leftovers of an incomplete move in the target.
func (c *recovery) cleanTarget(ctx context.Context) error {
	var left []removal
	again, err := c.confirmAll(ctx, func() (intent, error) {
		// The objects decide, also for courseUnclear.
		left, c.done.Refusals = targetLeftovers(c.left, c.arrived, c.force)
		if len(c.done.Refusals) > 0 || len(left) == 0 {
			return intent{}, nil
		}
		return intent{
			question: fmt.Sprintf("%s are removed in the target: %s.", number(len(left), "object"), pivot.Enumerate(left)),
			objects:  removalNames(left),
		}, c.refuse(targetSide, liveLeftover(left, c.arrived.hosts)...)
	})
	if again == nil || err != nil {
		return err
	}
	err = c.exclusive(ctx, again, func(ctx context.Context) error { return c.remove(ctx, c.target, left) })
	c.done.Done = err == nil
	return err
}

// targetLeftovers returns the leftovers of an incomplete move in the target, owned objects first. The first row that
// matches counts for all.
//
//	source               target                                       removed
//	has no Cluster       any                                          none: the target may have the only copies
//	any                  a Cluster of the source runs                 none: the target manages its objects
//	any                  managed the Cluster last, by its epoch       none
//	lost what its        any                                          none: clusterctl has begun to delete in the source
//	inventory has
//	paused               has all objects of the source, and more      none, unless forced: clusterctl may have deleted
//	                                                                  these in the source
//	anything else        anything else                                as the second table says
//
//	object of the target                                      removed
//	in both, but foreign: see foreignIn                       no: rename one of them
//	in the target only, of a Cluster of the source            yes
//	in the target only, moved, of another Cluster that runs   no: the target manages it
//	in the target only, moved                                 yes
//	that only such objects own                                yes
//	in both, being deleted in the target                      yes: the deletion would continue after the move
//	a host in both, with a status in the target               yes: BMO would ignore the status that arrives
//	any other                                                 no: clusterctl updates it, or the target has it of its own
func targetLeftovers(source, target *scope, force bool) (left []removal, refusals []obstacle) {
	if refusals = targetRefusals(source, target, force); len(refusals) > 0 {
		return nil, refusals
	}
	chosen, arriving := map[types.UID]bool{}, arrivalOf(source, target)
	for _, each := range target.movable() {
		if arriving.isLeftover(each) {
			chosen[each.object.UID] = true
		}
	}
	// A chain of owners has no kind twice.
	for range maxDepth {
		for _, each := range target.movable() {
			if !source.has(each.located) && target.ownedOnlyBy(each.object, chosen) {
				chosen[each.object.UID] = true
			}
		}
	}
	for _, each := range target.movable() {
		if chosen[each.object.UID] {
			left = append(left, each)
		}
	}
	return left, nil
}

// targetRefusals returns the obstacles to a removal in the target.
func targetRefusals(source, target *scope, force bool) []obstacle {
	about := pivot.AboutNamed("Namespace", "", source.namespace)
	refuse := func(side string, remedy, message string) []obstacle {
		return at(side, []pivot.Obstacle{about.Blocks(pivot.CodeWrongStage, remedy, "%s", message)})
	}
	_, running, _ := arrivingClusters(source, target)
	arriving := arrivalOf(source, target)
	isSecret := func(object located) bool { return object.kind == secretKind() }
	more, missing := slices.DeleteFunc(arriving.onlyHere(), isSecret), arriving.notHere()
	switch {
	case len(source.clusters) == 0:
		return refuse(sourceSide, "name the cluster that has the Clusters with --kubeconfig",
			"no Cluster is there, so the target may have the only copies")
	case running:
		return refuse(targetSide, "see pivot status", "a Cluster of the source runs there, so the target manages its objects")
	case newerIn(source, target) != "":
		return refuse(targetSide, "complete the move with pivot resume",
			"Metal3Cluster "+newerIn(source, target)+" has a newer move epoch there, so the target managed it last")
	case len(lostSince(source)) > 0:
		return refuse(sourceSide, "complete the move with pivot resume",
			"clusterctl has begun to delete there: it has lost "+pivot.Enumerate(lostSince(source)))
	case anyPaused(source.clusters) && len(missing) == 0 && len(more) > 0 && !force:
		return refuse(sourceSide, "complete the move with pivot resume, or use --force if you deleted them in the source",
			"the Clusters are paused, and all objects are in the target, so clusterctl may have deleted these in the source: "+
				pivot.Enumerate(more))
	default:
		return nil
	}
}

// isLeftover returns true for a leftover of an incomplete move. It ignores owners.
func (a arrival) isLeftover(each removal) bool {
	if a.foreign[each.located] {
		return false
	}
	if a.from.has(each.located) {
		if each.kind != hostKindOf() {
			return !each.object.DeletionTimestamp.IsZero()
		}
		for _, host := range a.hosts {
			if host.Name == each.name {
				return len(pivot.Leftover(host)) > 0
			}
		}
		return false
	}
	return each.kind != secretKind() && a.cameAlong(each.object)
}

// movable returns the objects of one side that move, owned objects first. It omits objects without a namespace,
// ClusterClasses and their objects: Clusters of other namespaces may use them.
func (s *scope) movable() []removal {
	var found []removal
	depths := depthsOf(s)
	for _, definition := range append(s.definitions, definition{Storage: "v1", Kind: secretKind()}) {
		for name, object := range s.belongingsOf(definition.Kind) {
			if object.Namespace != "" && !ofClass(object) {
				found = append(found, removal{located{definition.Kind, name}, definition.Storage, object})
			}
		}
	}
	slices.SortFunc(found, func(a, b removal) int {
		return cmp.Or(cmp.Compare(depths[b.object.UID], depths[a.object.UID]), cmp.Compare(a.kind.Kind, b.kind.Kind),
			cmp.Compare(a.name, b.name))
	})
	return found
}

// has returns true if the side has an object of that kind and name.
func (s *scope) has(object located) bool {
	_, exists := s.all(object.kind)[object.name]
	return exists
}

// removals returns the objects that clusterctl moves and that both sides have, owned objects first. Clusters are last:
// without its Cluster, an object of Cluster API keeps its finalizers.
func removals(from, other *scope) []removal {
	return slices.DeleteFunc(from.movable(), func(each removal) bool {
		return !other.has(each.located) || !from.takes(each.kind, each.object)
	})
}

// removal is an object that is removed without an action of its controller.
type removal struct {
	located
	version string
	object  *metav1.PartialObjectMetadata
}
