package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// liveLeftover returns obstacles for the hosts that BMO manages and that a removal would delete.
func liveLeftover(objects []removal, hosts []*bmov1alpha1.BareMetalHost) []pivot.Obstacle {
	var live []pivot.Obstacle
	for _, host := range hosts {
		_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		removed := func(each removal) bool { return each.object.UID == host.UID }
		if !paused && slices.ContainsFunc(objects, removed) {
			live = append(live, pivot.About("BareMetalHost", host).Blocks(pivot.CodeLeftoverRuns,
				"pause it with annotation "+bmov1alpha1.PausedAnnotation,
				"BareMetalHost %s is not paused, so BMO manages it", host.Name))
		}
	}
	return live
}

func setupAbort(set *pflag.FlagSet) runner {
	return setupRecovery(set, "PivotAbort", (*recovery).abort)
}

func setupResume(set *pflag.FlagSet) runner {
	return setupMove(set, "PivotResume", (*recovery).resume)
}

// abort unpauses the source and removes the copies in the target.
func (c *recovery) abort(ctx context.Context) error {
	switch c.done.Course {
	case courseNone:
		c.done.Done = true
		return nil
	case courseDeleting:
		return c.wrongStage("continue with pivot resume",
			"clusterctl has begun to delete in the source, and the source is no longer complete")
	case courseArrived:
		return c.wrongStage("move them back with pivot run", "the move is complete, and the target manages the Clusters")
	case courseUnclear:
		return nil
	case courseCopying, courseGivenUp:
	}
	arriving := arrival{scope: c.arrived, from: c.left}
	copies := slices.DeleteFunc(removals(c.arrived, c.left), func(each removal) bool {
		return arriving.userOf(each.located, each.object) != ""
	})
	question := fmt.Sprintf("The Clusters of namespace %s are unpaused in the source, and %s are removed in the target.",
		c.where.namespace, number(len(copies), "copied object"))
	if live := liveLeftover(copies, c.arrived.hosts); len(live) > 0 {
		return c.refuse(targetSide, live...)
	}
	if err := c.ask(question); err != nil {
		return err
	}
	if err := c.unpause(ctx, c.source, c.left); err != nil {
		return err
	}
	if err := c.remove(ctx, c.target, copies); err != nil {
		return err
	}
	return c.finish(ctx, c.source)
}

func (c *recovery) ask(question string) error {
	return confirm(c.environment, c.yes || c.dryRun, question)
}

// intent is the planned work of a command.
type intent struct {
	question string

	// objects are the objects that would change. Empty if there is nothing to do.
	objects []string
}

// confirm judges, asks the user for confirmation, and judges again after the answer. It returns false if there is
// nothing to do, or if an obstacle exists. It returns an error if the objects differ from the confirmed ones.
func (c *recovery) confirm(judge func() (intent, []pivot.Obstacle, error)) (bool, error) {
	before, err := c.judged(judge)
	if len(before.objects) == 0 || err != nil {
		return false, err
	}
	if err := c.ask(before.question); err != nil || c.yes || c.dryRun {
		return err == nil, err
	}
	after, err := c.judged(judge)
	if len(after.objects) == 0 || err != nil {
		return false, err
	}
	if !slices.Equal(before.objects, after.objects) {
		return false, fmt.Errorf("not done: the confirmed objects %w. Now: %s", errChanged, after.question)
	}
	return true, nil
}

// judged returns the planned work of a command. It returns none if an obstacle exists.
func (c *recovery) judged(judge func() (intent, []pivot.Obstacle, error)) (intent, error) {
	intended, refusals, err := judge()
	if err != nil || len(refusals) > 0 {
		return intent{}, errors.Join(err, c.refuse(sourceSide, refusals...))
	}
	c.done.Done = len(intended.objects) == 0
	return intended, nil
}

// clean removes the leftovers in the source, or in the target.
func (c *recovery) clean(ctx context.Context) error {
	if c.ofTarget {
		return c.cleanTarget(ctx)
	}
	switch stayed, moved := divided(c.left, c.arrived); {
	case len(stayed) > 0 && len(moved) > 0:
		// The Clusters that have moved decide, also for courseUnclear. The others stay.
		c.done.Refusals, c.left = []obstacle{}, c.left.of(moved)
	case c.done.Course == courseDeleting:
		return c.wrongStage("complete the move with pivot resume", "the Clusters of the target are paused")
	case c.done.Course != courseArrived:
		return c.wrongStage("pivot clean removes only the leftovers of a complete move",
			fmt.Sprintf("the target does not manage the Clusters (course %s)", c.done.Course))
	}
	if paused := pausedIn(c.left, c.arrived); len(paused) > 0 {
		return c.refuse(targetSide, paused...)
	}
	late, refusals, err := c.lateHosts(ctx)
	if err != nil {
		return err
	}
	if len(refusals) > 0 {
		return c.refuse(sourceSide, refusals...)
	}
	// A host that can still be moved must not be removed.
	late.belongings = nil
	err = c.sweep(ctx, late)
	c.done.Done = err == nil && len(c.done.Refusals) == 0
	return err
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

// sweep removes the leftovers in the source if the target has all of them, in no older version, and no controller acts
// on them. It keeps late hosts.
func (c *recovery) sweep(ctx context.Context, late lateHosts) error {
	for _, cluster := range c.left.clusters {
		if !isPaused(cluster) {
			return c.refuse(sourceSide, pivot.About("Cluster", cluster).Blocks(pivot.CodeClusterRuns,
				"pause it with pivot fence", "Cluster %s runs in the source", cluster.Name))
		}
	}
	if newer := newerIn(c.arrived, c.left); newer != "" {
		return c.refuse(sourceSide, pivot.AboutNamed("Metal3Cluster", c.left.namespace, newer).Blocks(pivot.CodeMoveUnclear,
			"unpause the Cluster in the source with kubectl, and move it with pivot run",
			"Metal3Cluster %s has a newer move epoch in the source than in the target, so the source managed it last", newer))
	}
	var lost []pivot.Obstacle
	for _, each := range (arrival{scope: c.arrived, from: c.left}).notHere() {
		if !late.spares(each) {
			lost = append(lost, pivot.AboutNamed(each.kind.Kind, c.left.namespace, each.name).Blocks(pivot.CodeNotInTarget,
				"move it with pivot resume if it belongs to a host that was created during the move, or delete it in the source "+
					"yourself if nothing needs it", "%s of the source is not in the target, and would be lost", each))
		}
	}
	if len(lost) > 0 {
		return c.refuse(sourceSide, lost...)
	}
	left := slices.DeleteFunc(removals(c.left, c.arrived), func(each removal) bool { return late.kept[each.located] })
	if live := liveLeftover(left, c.left.hosts); len(live) > 0 {
		return c.refuse(sourceSide, live...)
	}
	if len(left) > 0 {
		if err := c.ask(fmt.Sprintf("%s are removed in the source.", number(len(left), "object"))); err != nil {
			return err
		}
	}
	return c.remove(ctx, c.source, left)
}

// resume continues a move that was interrupted.
func (c *recovery) resume(ctx context.Context) error {
	switch c.done.Course {
	case courseNone:
		return c.wrongStage("begin one with pivot run", "no move is under way")
	case courseUnclear:
		return nil
	case courseCopying, courseGivenUp:
		if err := c.ask("Nothing was deleted in the source: its Clusters are unpaused, and moved again."); err != nil {
			return err
		}
		if err := c.unpause(ctx, c.source, c.left); err != nil || c.dryRun {
			c.done.Done = err == nil
			return err
		}
		return c.move(ctx)
	case courseDeleting, courseArrived:
	}
	return c.complete(ctx)
}
