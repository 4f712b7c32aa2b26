package plugin

import (
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// complete does the steps of clusterctl that follow the copies, and moves the hosts that clusterctl has not discovered.
func (c *recovery) complete(ctx context.Context) error {
	_, departed, err := c.source.departed(ctx, c.where.namespace)
	if err != nil {
		return err
	}
	var left []removal
	var late lateHosts
	again, err := c.confirmAll(ctx, func() (planned intent, err error) {
		_, refusals := broughtBy(c.left, c.arrived, departed)
		if len(refusals) > 0 {
			return intent{}, c.refuse(targetSide, refusals...)
		}
		if neverMoved(c.left, c.arrived, departed) {
			return intent{}, c.refuse(sourceSide, pivot.AboutNamed("Namespace", "", c.where.namespace).Blocks(
				pivot.CodeNothingToMove, "check --kubeconfig and --to-kubeconfig: they may be swapped",
				"the source has neither a Cluster nor a record of a move"))
		}
		left, late, err = c.planSweep(ctx)
		return removalOf(left, sourceSide), err
	})
	if again == nil || err != nil {
		return err
	}
	moved := movedClusters(c.left, c.arrived, departed)
	sweep := func(ctx context.Context) error {
		if err := c.remove(ctx, c.source, left); err != nil {
			return err
		}
		return c.unpauseKept(ctx, moved)
	}
	// The last two steps ask for confirmation, without the Lease.
	for _, step := range []func() error{
		func() error { return c.exclusive(ctx, again, sweep) },
		func() error { return c.moveLate(ctx, late, moved) },
		func() error { return c.unpauseBrought(ctx, departed) },
	} {
		if err := step(); err != nil || len(c.done.Refusals) > 0 {
			return err
		}
	}
	if later := pausedLater(c.left, c.arrived, departed); len(later) > 0 {
		return c.arriveBeside(ctx, later)
	}
	return c.arrive(ctx)
}

// neverMoved returns true if the source shows no move: it has no record of one, no Cluster, no host and no leftover.
func neverMoved(source, target *scope, departed pivot.Departure) bool {
	return len(departed.Infras)+len(departed.Hosts) == 0 && len(source.clusters)+len(source.hosts) == 0 &&
		len(removals(source, target)) == 0
}

// arriveBeside waits until the hosts of the other Clusters run in the target, and refuses for the Clusters that were
// paused after their move.
func (c *recovery) arriveBeside(ctx context.Context, later []*clusterv1.Cluster) error {
	var others []string
	var refusals []pivot.Obstacle
	for _, cluster := range c.arrived.clusters {
		if !slices.Contains(later, cluster) {
			others = append(others, cluster.Name)
			continue
		}
		refusals = append(refusals, pivot.About("Cluster", cluster).Blocks(pivot.CodePaused,
			"wait until the other move is complete; without another move, use pivot unpause there",
			"a user or another move paused Cluster %s in the target after it had arrived", cluster.Name))
	}
	if len(others) > 0 {
		if err := c.finish(ctx, c.target, others...); err != nil {
			return err
		}
	}
	c.done.Done = false
	if err := c.refuse(targetSide, refusals...); err != nil || c.dryRun {
		return err
	}
	return c.judgeSource(ctx)
}

// planSweep returns the objects of the source that the target has, and the hosts that clusterctl has not discovered. It
// refuses if an object would be lost.
func (c *recovery) planSweep(ctx context.Context) ([]removal, lateHosts, error) {
	late, err := c.lateHosts(ctx)
	if err != nil || len(c.done.Refusals) > 0 {
		return nil, late, err
	}
	left, err := c.sweepable(late)
	return left, late, err
}

// unpauseBrought unpauses the Clusters of the target that arrived with a move. The last read of the source is from the
// time before its objects were removed.
func (c *recovery) unpauseBrought(ctx context.Context, departed pivot.Departure) error {
	var brought *scope
	again, err := c.confirmPlan(ctx, func() (intent, error) {
		var refusals []pivot.Obstacle
		brought, refusals = broughtBy(c.left, c.arrived, departed)
		planned := intent{objects: unpausedNames(brought)}
		if len(planned.objects) > 0 {
			planned.question = fmt.Sprintf("%s of namespace %s are unpaused in the target.",
				pivot.Enumerate(planned.objects), brought.namespace)
		}
		return planned, c.refuse(targetSide, refusals...)
	}, func() (err error) {
		c.arrived, err = c.target.survey(ctx, c.where.namespace)
		return err
	})
	if again == nil || err != nil {
		return err
	}
	return c.exclusive(ctx, again, func(ctx context.Context) error { return c.unpause(ctx, c.target, brought) })
}

// broughtBy returns the paused Clusters of the target that arrived with a move, or why they must stay paused. The first
// row that matches counts for each paused Cluster of the target:
//
//	the source                                     the target                 runs
//	has it, or recorded that it went to a target   has a newer epoch          no: a user or another move paused it later
//	recorded that it went to a target              has an older epoch         refused: it moved to another cluster
//	has no such Cluster, and recorded others       any                        no: another move brings it, or a user has
//	                                                                          paused it
//	has no such Cluster, and recorded nothing      any                        refused: nothing shows that it is complete
//	has it, or recorded that it went to a target   lacks what its inventory   refused: BMO would wipe hosts
//	                                               has
//	has it, or recorded that it went to a target   has all                    yes
//
// Without such a Cluster, the ClusterClasses of the target stay paused, too.
func broughtBy(source, target *scope, departed pivot.Departure) (*scope, []pivot.Obstacle) {
	brought := *target
	brought.sight = &sight{namespace: target.namespace}
	var refusals []pivot.Obstacle
	for _, cluster := range target.clusters {
		if !isPaused(cluster) {
			continue
		}
		infra := target.infraOf(cluster)
		from := originOf(source, cluster, infra, departed)
		switch {
		case from == originLater:
		case from == originOlder:
			refusals = append(refusals, pivot.About("Cluster", cluster).Blocks(pivot.CodeMoveUnclear,
				"name the cluster that it moved to with --to-kubeconfig",
				"Cluster %s has move epoch %s in the target, and the source moved it away with move epoch %s", cluster.Name,
				pivot.EpochOf(infra), departed.Infras[infra.Name]))
		case from == originMove:
			brought.clusters = append(brought.clusters, cluster)
			if infra != nil {
				brought.infras = append(brought.infras, infra)
			}
		case len(source.clusters)+len(departed.Infras) == 0:
			refusals = append(refusals, pivot.About("Cluster", cluster).Blocks(pivot.CodeMoveUnclear,
				"if it is complete, use pivot unpause there",
				"the source has no record of a move, and Cluster %s of the target is paused", cluster.Name))
		}
	}
	brought.pausedClasses = classesOf(brought.clusters, target.namespace, target.pausedClasses)
	for _, each := range lostSince(&brought) {
		about := pivot.AboutNamed(each.kind.Kind, target.namespace, each.name)
		refusals = append(refusals, about.Blocks(pivot.CodeMoveUnclear, "restore it from a backup in the target",
			"%s existed when clusterctl began to copy, and is in neither cluster: Cluster API would replace Machines, and "+
				"BMO would wipe their hosts", each))
	}
	return &brought, refusals
}

// pausedLater returns the Clusters of the target that arrived with a move from the source, were unpaused, and are
// paused again.
func pausedLater(source, target *scope, departed pivot.Departure) []*clusterv1.Cluster {
	var later []*clusterv1.Cluster
	for _, cluster := range target.clusters {
		if isPaused(cluster) && originOf(source, cluster, target.infraOf(cluster), departed) == originLater {
			later = append(later, cluster)
		}
	}
	return later
}

// movedClusters returns the Clusters of the source, and those that its last move has brought to the target.
func movedClusters(source, target *scope, departed pivot.Departure) []*clusterv1.Cluster {
	moved := slices.Clone(source.clusters)
	for _, cluster := range target.clusters {
		switch originOf(source, cluster, target.infraOf(cluster), departed) {
		case originMove, originLater:
			moved = append(moved, cluster)
		case originOther, originOlder:
		}
	}
	return moved
}

// origin is the relation of a Cluster of the target to the last move from the source.
type origin int

// Values of origin.
const (
	// originOther means that the source neither has the Cluster nor has recorded its move.
	originOther origin = iota

	// originMove means that the Cluster arrived with the move.
	originMove

	// originLater means that the Cluster arrived, and was unpaused and paused since: each raises the epoch.
	originLater

	// originOlder means that an earlier move left the Cluster, and that the last one took it to another cluster.
	originOlder
)

// originOf returns the relation of a Cluster of the target. Infra is its Metal3Cluster, or nil. clusterctl deletes the
// Metal3Cluster in the source before the Cluster: the record of the departure has its epoch.
func originOf(source *scope, cluster *clusterv1.Cluster, infra *infrav1.Metal3Cluster, departed pivot.Departure,
) origin {
	same := func(left *clusterv1.Cluster) bool { return left.Name == cluster.Name }
	i := slices.IndexFunc(source.clusters, same)
	if i >= 0 {
		switch from := source.infraOf(source.clusters[i]); {
		case infra == nil:
			return originMove
		case from != nil && pivot.EpochOf(from) < pivot.EpochOf(infra):
			return originLater
		case from != nil:
			return originMove
		}
	}
	if infra == nil {
		return originOther
	}
	switch epoch, went := departed.Infras[infra.Name]; {
	case !went && i >= 0:
		return originMove
	case !went:
		return originOther
	case epoch < pivot.EpochOf(infra):
		return originLater
	case epoch > pivot.EpochOf(infra):
		return originOlder
	default:
		return originMove
	}
}
