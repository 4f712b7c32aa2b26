package plugin

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// clean removes the leftovers in the source, or in the target.
func (c *recovery) clean(ctx context.Context) error {
	if c.ofTarget {
		return c.cleanTarget(ctx)
	}
	var left []removal
	again, err := c.confirmAll(ctx, func() (planned intent, err error) {
		left, err = c.planClean(ctx)
		return removalOf(left, sourceSide), err
	})
	if again == nil || err != nil {
		return err
	}
	err = c.exclusive(ctx, again, func(ctx context.Context) error { return c.remove(ctx, c.source, left) })
	c.done.Done = err == nil
	return err
}

// planClean returns the leftovers in the source, or refuses.
func (c *recovery) planClean(ctx context.Context) ([]removal, error) {
	switch stayed, moved := divided(c.left, c.arrived); {
	case len(moved) > 0 && len(stayed)+len(runningOnly(c.left, c.arrived)) > 0:
		// The Clusters that have moved decide, also for courseUnclear. The others stay.
		c.done.Refusals, c.left = []obstacle{}, c.left.of(moved)
	case c.done.Course == courseDeleting:
		return nil, c.wrongStage("complete the move with pivot resume", "the Clusters of the target are paused")
	case c.done.Course != courseArrived:
		return nil, c.wrongStage("pivot clean removes only the leftovers of a complete move",
			fmt.Sprintf("the target does not manage the Clusters (course %s)", c.done.Course))
	}
	if paused := pausedIn(c.left, c.arrived); len(paused) > 0 {
		return nil, c.refuse(targetSide, paused...)
	}
	late, err := c.lateHosts(ctx)
	if err != nil || len(c.done.Refusals) > 0 {
		return nil, err
	}
	// A host that can still be moved must not be removed.
	late.belongings = nil
	return c.sweepable(late)
}

// pausedIn returns the names of the Clusters of a complete move that are still paused in the target, because clusterctl
// was killed before it unpaused them.
func pausedIn(left, arrived *scope) []pivot.Obstacle {
	names, _, _ := arrivingClusters(left, arrived)
	var paused []pivot.Obstacle
	for _, cluster := range arrived.clusters {
		if isPaused(cluster) && slices.Contains(names, cluster.Name) {
			paused = append(paused, pivot.About("Cluster", cluster).Blocks(pivot.CodePaused,
				"complete the move with pivot resume", "Cluster %s of the target is paused", cluster.Name))
		}
	}
	return paused
}

// sweepable returns the leftovers in the source, without late hosts. It refuses if the target lacks one of them or has
// an older version, or if a controller acts on them.
func (c *recovery) sweepable(late lateHosts) ([]removal, error) {
	isRunning := func(cluster *clusterv1.Cluster) bool { return !isPaused(cluster) }
	if i := slices.IndexFunc(c.left.clusters, isRunning); i >= 0 {
		cluster, remedy := c.left.clusters[i], "pause it with pivot fence"
		if slices.Contains(runningOnly(c.left, c.arrived), cluster.Name) {
			remedy = "remove the leftovers of the other Clusters with pivot clean; then move it with pivot run, or leave it " +
				"in the source"
		}
		return nil, c.refuse(sourceSide, pivot.About("Cluster", cluster).Blocks(pivot.CodeClusterRuns, remedy,
			"Cluster %s runs in the source", cluster.Name))
	}
	if newer := newerIn(c.arrived, c.left); newer != "" {
		return nil, c.refuse(sourceSide, pivot.AboutNamed("Metal3Cluster", c.left.namespace, newer).Blocks(
			pivot.CodeMoveUnclear, "unpause the Cluster in the source with kubectl, and move it with pivot run",
			"Metal3Cluster %s has a newer move epoch in the source than in the target, so the source managed it last", newer))
	}
	var lost []pivot.Obstacle
	for _, each := range arrivalOf(c.left, c.arrived).notHere() {
		if !late.spares(each) {
			lost = append(lost, pivot.AboutNamed(each.kind.Kind, c.left.namespace, each.name).Blocks(pivot.CodeNotInTarget,
				"move it with pivot resume if it belongs to a host that was created during the move, or delete it in the source "+
					"yourself if nothing needs it", "%s of the source is not in the target, and would be lost", each))
		}
	}
	if len(lost) > 0 {
		return nil, c.refuse(sourceSide, lost...)
	}
	left := slices.DeleteFunc(removals(c.left, c.arrived), func(each removal) bool { return late.kept[each.located] })
	if live := liveLeftover(left, c.left.hosts); len(live) > 0 {
		return nil, c.refuse(sourceSide, live...)
	}
	return left, nil
}

// removalOf returns the plan of a removal on one side.
func removalOf(left []removal, side string) intent {
	if len(left) == 0 {
		return intent{}
	}
	return intent{
		question: fmt.Sprintf("%s are removed in the %s.", number(len(left), "object"), side), objects: removalNames(left),
	}
}

// removalNames returns the kinds and names of objects.
func removalNames(objects []removal) []string {
	names := make([]string, 0, len(objects))
	for _, each := range objects {
		names = append(names, each.String())
	}
	return names
}
