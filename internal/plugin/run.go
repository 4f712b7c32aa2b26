package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func setupRun(set *pflag.FlagSet) runner {
	c := &recovery{}
	c.ignored.add(set)
	set.BoolVar(&c.noWait, "no-wait", false, "refuse at once, also where an obstacle ends by itself")
	run := c.setup(set, "PivotRun", (*recovery).run)
	set.Lookup("timeout").Usage = "how long to wait until the move can begin, and then until the hosts run"
	return run
}

// run moves a namespace, or continues its move.
func (c *recovery) run(ctx context.Context) error {
	switch c.done.Course {
	case courseCopying, courseDeleting:
		if err := c.progress.say("A move was interrupted here (%s). It is continued.", c.done.Course); err != nil {
			return err
		}
		return c.resume(ctx)
	case courseArrived:
		return c.complete(ctx)
	case courseUnclear:
		return nil
	case courseNone, courseGivenUp:
	}
	return c.begin(ctx)
}

// begin begins a move: it judges, asks for confirmation, waits and moves.
func (c *recovery) begin(ctx context.Context) error {
	verdict, err := c.judge(ctx)
	if err != nil {
		return err
	}
	if !verdict.Ready && (!verdict.passes() || c.noWait || c.dryRun) {
		c.done.Refusals = verdict.Obstacles
		return nil
	}
	if err := c.askMove(ctx, verdict); err != nil {
		return err
	}
	if c.dryRun {
		c.done.Done = true
		c.done.Actions = append(c.done.Actions, fmt.Sprintf("Moved namespace %s with clusterctl", c.where.namespace))
		return nil
	}
	if verdict, err = c.awaitPassing(ctx, verdict); err != nil || !verdict.Ready {
		c.done.Refusals = verdict.Obstacles
		return errors.Join(err, ctx.Err())
	}
	return c.transfer(ctx, verdict)
}

// judge judges the move by the observed objects of both sides.
func (c *recovery) judge(ctx context.Context) (preflight, error) {
	if err := c.source.compareFields(ctx, c.left, c.arrived); err != nil {
		return preflight{}, err
	}
	return judge(c.left, c.arrived, c.ignored), nil
}

// askMove asks for confirmation of the move, before it waits.
func (c *recovery) askMove(ctx context.Context, verdict preflight) error {
	question := fmt.Sprintf("All Clusters and hosts of namespace %s are moved to the target.", c.where.namespace)
	if verdict.Ready {
		if err := c.progress.say("Preflight: ready. %s.", verdict.Counted); err != nil {
			return err
		}
	} else {
		question += fmt.Sprintf(" The move of %s begins when these obstacles end: %s.", verdict.Counted,
			pivot.Enumerate(verdict.Obstacles))
	}
	return c.ask(ctx, question)
}

// awaitPassing judges again, waits while each obstacle ends without an administrator, and returns the last verdict. It
// asks again if other Clusters or hosts would move than the user has confirmed.
func (c *recovery) awaitPassing(ctx context.Context, confirmed preflight) (preflight, error) {
	c.progress.begin("Preflight", "", 0)
	verdict, err := c.await(ctx, func(verdict preflight) bool { return !verdict.passes() })
	if err != nil || !verdict.Ready || slices.Equal(verdict.moving, confirmed.moving) {
		return verdict, err
	}
	c.progress.end()
	if err := c.progress.say("The Clusters or hosts to move have changed: %s.",
		pivot.Enumerate(difference(confirmed.moving, verdict.moving))); err != nil {
		return verdict, err
	}
	return verdict, c.askMove(ctx, verdict)
}

// difference describes which names are new, and which are gone.
func difference(before, after []string) []string {
	var changed []string
	for _, name := range after {
		if !slices.Contains(before, name) {
			changed = append(changed, name+" is new")
		}
	}
	for _, name := range before {
		if !slices.Contains(after, name) {
			changed = append(changed, name+" is gone")
		}
	}
	return changed
}

// await inspects until a verdict is final, or until the timeout. It prints the obstacles when they change.
func (c *recovery) await(ctx context.Context, final func(preflight) bool) (preflight, error) {
	told := ""
	// A failed write does not end the wait.
	planned := plannedMove{c.source, c.target, c.where.namespace, c.ignored, func(err error) {
		told = ""
		_ = c.progress.say("Waiting: %v", err)
	}}
	return planned.await(ctx, c.timeout, func(verdict preflight) bool {
		if line := pivot.Enumerate(verdict.Obstacles); line != told && line != "" {
			told = line
			_ = c.progress.say("Waiting: %s", line)
		}
		return final(verdict)
	})
}

// move transfers the namespace as soon as the move is ready.
func (c *recovery) move(ctx context.Context) error {
	c.progress.begin("Preflight", "", 0)
	verdict, err := c.await(ctx, isReady)
	if err != nil {
		return err
	}
	if !verdict.Ready {
		c.done.Refusals = append(c.done.Refusals, verdict.Obstacles...)
		return ctx.Err()
	}
	return c.transfer(ctx, verdict)
}

// judgeAgain judges a move again that had to wait. It returns false if an obstacle exists, and an error if other
// Clusters or hosts would move than before.
func (c *recovery) judgeAgain(ctx context.Context, before preflight) (bool, error) {
	verdict, err := plannedMove{c.source, c.target, c.where.namespace, c.ignored, nil}.inspect(ctx)
	if err != nil || !verdict.Ready {
		c.done.Refusals = append(c.done.Refusals, verdict.Obstacles...)
		return false, err
	}
	return true, intent{objects: before.moving}.compare(intent{
		fmt.Sprintf("%s are moved to the target.", verdict.Counted), verdict.moving,
	})
}

// transfer runs clusterctl, and waits until the hosts run in the target.
func (c *recovery) transfer(ctx context.Context, ready preflight) error {
	total := 0
	for _, kind := range append(c.left.kinds(), secretKind()) {
		for _, object := range c.left.belongingsOf(kind) {
			if c.left.takes(kind, object) {
				total++
			}
		}
	}
	again := func() (bool, error) { return c.judgeAgain(ctx, ready) }
	err := c.exclusive(ctx, again, func(ctx context.Context) error {
		if err := c.clusterctlMove(ctx, total); err != nil {
			return fmt.Errorf("clusterctl move: %w; see pivot status, and continue with pivot resume, or abort with pivot abort",
				err)
		}
		c.done.Actions = append(c.done.Actions, fmt.Sprintf("Moved namespace %s with clusterctl", c.where.namespace))
		return c.unpauseKept(ctx, c.left.clusters)
	})
	if err != nil {
		return err
	}
	return c.arrive(ctx)
}

// arrive waits until the hosts run in the target, and checks whether the source may be switched off.
func (c *recovery) arrive(ctx context.Context) error {
	if err := c.finish(ctx, c.target); err != nil || c.dryRun {
		return err
	}
	return c.judgeSource(ctx)
}

// judgeSource checks whether the source may be switched off.
func (c *recovery) judgeSource(ctx context.Context) error {
	because, err := c.dependsOnSource(ctx)
	if err != nil {
		return err
	}
	c.done.SafeToSwitchOff, c.done.Because = ptr.To(len(because) == 0), because
	return nil
}

// report prints the actions.
func (c *recovery) report() error {
	if c.form.machine() {
		return c.form.write(c.environment.Output, c.done, false)
	}
	out := c.environment.Output
	var problem error
	tell := func(format string, values ...any) { problem = errors.Join(problem, say(out, format, values...)) }
	if c.dryRun {
		for _, action := range c.done.Actions {
			tell("Dry run: %s. Not done.", action)
		}
	}
	if ending := c.ending(); ending != "" {
		tell("%s", ending)
	}
	for _, refusal := range c.done.Refusals {
		tell("- %s", refusal)
	}
	if answer := c.done.safety(); answer != "" {
		tell("Safe to switch off the source: %s", answer)
	}
	return problem
}

// ending returns the line after the actions. Empty for none.
func (c *recovery) ending() string {
	switch {
	case len(c.done.Refusals) > 0 && len(c.done.Actions) == 0:
		return "Not done, because:"
	case len(c.done.Refusals) > 0:
		return "Not complete, because:"
	case c.done.Done && len(c.done.Actions) == 0:
		return "Nothing to do."
	case c.done.Done && !c.dryRun:
		return "Done."
	default:
		return ""
	}
}

// safety returns whether the source may be switched off, and why. Empty if it was not checked.
func (o outcome) safety() string {
	switch {
	case o.SafeToSwitchOff == nil:
		return ""
	case *o.SafeToSwitchOff:
		return "yes, because the target manages all Clusters and hosts, and needs no Ironic of the source"
	default:
		return "no, because " + pivot.Enumerate(o.Because)
	}
}
