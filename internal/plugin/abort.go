package plugin

import (
	"context"
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
	var copies []removal
	again, err := c.confirmStopped(ctx, func() (intent, error) {
		copies = c.copies()
		return intent{
			question: fmt.Sprintf("The Clusters of namespace %s are unpaused in the source, and %s are removed in the "+
				"target%s. Stop clusterctl first.", c.where.namespace, number(len(copies), "copied object"), listed(copies)),
			objects: append(unpausedNames(c.left), removalNames(copies)...),
		}, c.refuse(targetSide, liveLeftover(copies, c.arrived.hosts)...)
	})
	if again == nil || err != nil {
		return err
	}
	err = c.exclusive(ctx, again, func(ctx context.Context) error {
		if err := c.unpause(ctx, c.source, c.left); err != nil {
			return err
		}
		return c.remove(ctx, c.target, copies)
	})
	if err != nil {
		return err
	}
	return c.finish(ctx, c.source)
}

// listed returns a colon and the first objects. Empty if there are none.
func listed(objects []removal) string {
	if len(objects) == 0 {
		return ""
	}
	return ": " + pivot.Enumerate(objects)
}

// copies returns the objects of the target that the source has, without foreign objects, and without those that another
// object of the target uses.
func (c *recovery) copies() []removal {
	arriving := arrivalOf(c.left, c.arrived)
	return slices.DeleteFunc(removals(c.arrived, c.left), func(each removal) bool {
		return arriving.foreign[each.located] || arriving.userOf(each.located, each.object) != ""
	})
}

// resume continues a move that was interrupted.
func (c *recovery) resume(ctx context.Context) error {
	switch c.done.Course {
	case courseNone:
		return c.wrongStage("begin one with pivot run", "no move is under way")
	case courseUnclear:
		return nil
	case courseCopying, courseGivenUp:
		again, err := c.confirmStopped(ctx, func() (intent, error) {
			return intent{
				question: "Nothing was deleted in the source: its Clusters are unpaused, and moved again. Stop clusterctl first.",
				objects:  unpausedNames(c.left),
			}, nil
		})
		if again == nil || err != nil {
			return err
		}
		err = c.exclusive(ctx, again, func(ctx context.Context) error { return c.unpause(ctx, c.source, c.left) })
		if err != nil || c.dryRun {
			c.done.Done = err == nil
			return err
		}
		return c.move(ctx)
	case courseDeleting, courseArrived:
	}
	return c.complete(ctx)
}
