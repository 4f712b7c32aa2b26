package plugin

import (
	"context"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// liveLeftover names hosts that a removal would take from a BMO that manages them.
func liveLeftover(objects []removal, hosts []*bmov1alpha1.BareMetalHost) []string {
	var live []string
	for _, host := range hosts {
		_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
		removed := func(each removal) bool { return each.object.UID == host.UID }
		if !paused && slices.ContainsFunc(objects, removed) {
			live = append(live, host.Name)
		}
	}
	return live
}

func setupAbort(set *pflag.FlagSet) runner {
	return setupRecovery(set, "PivotAbort", (*recovery).abort)
}

func setupClean(set *pflag.FlagSet) runner {
	return setupRecovery(set, "PivotClean", (*recovery).clean)
}

func setupResume(set *pflag.FlagSet) runner {
	return setupRecovery(set, "PivotResume", (*recovery).resume)
}

// abort puts everything back in the source.
func (c *recovery) abort(ctx context.Context) error {
	switch c.done.Course {
	case courseNone:
		c.done.Done = true
		return nil
	case courseDeleting:
		return c.refuse("clusterctl has begun to delete in the source, and the source is not complete any more: " +
			"continue with pivot resume")
	case courseArrived:
		return c.refuse("the move is complete, and the target manages the Clusters: move them back with pivot run")
	case courseUnclear:
		return nil
	case courseCopying, courseGivenUp:
	}
	copies := removals(c.arrived, c.left)
	question := fmt.Sprintf("The Clusters of namespace %s are unpaused in the source, and %s are removed in the target.",
		c.where.namespace, number(len(copies), "copied object"))
	if live := liveLeftover(copies, c.arrived.hosts); len(live) > 0 {
		return c.refuse("BareMetalHosts %s of the target are not paused: BMO manages them there", pivot.Enumerate(live))
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

// clean removes what is left in the source.
func (c *recovery) clean(ctx context.Context) error {
	if c.done.Course != courseArrived {
		if c.done.Course == courseDeleting {
			return c.refuse("the Clusters of the target are paused: complete the move with pivot resume")
		}
		return c.refuse("the target does not manage the Clusters (course %s): only what a complete move has left is removed",
			c.done.Course)
	}
	err := c.sweep(ctx)
	c.done.Done = err == nil && len(c.done.Refusals) == 0
	return err
}

// sweep removes what is left in the source, if all of it is in the target and nothing acts on it.
func (c *recovery) sweep(ctx context.Context) error {
	for _, cluster := range c.left.clusters {
		if !isPaused(cluster) {
			return c.refuse("Cluster %[1]s runs in the source: pause it with `kubectl patch cluster %[1]s --namespace %[2]s "+
				`--type merge --patch '{"spec":{"paused":true}}'`+"`", cluster.Name, cluster.Namespace)
		}
	}
	if missing := (arrival{scope: c.arrived, from: c.left}).notHere(); len(missing) > 0 {
		return c.refuse("%s of the source is not in the target, and would be lost: delete it in the source yourself if "+
			"nothing needs it", enumerate(missing))
	}
	left := removals(c.left, c.arrived)
	if live := liveLeftover(left, c.left.hosts); len(live) > 0 {
		return c.refuse("BareMetalHosts %s of the source are not paused, so BMO manages them: pause them with annotation %s",
			pivot.Enumerate(live), bmov1alpha1.PausedAnnotation)
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
		return c.refuse("no move is under way: begin one with pivot run")
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

// complete does what clusterctl does after it has copied everything.
func (c *recovery) complete(ctx context.Context) error {
	if err := c.sweep(ctx); err != nil || len(c.done.Refusals) > 0 {
		return err
	}
	if err := c.unpause(ctx, c.target, c.arrived); err != nil {
		return err
	}
	return c.arrive(ctx)
}
