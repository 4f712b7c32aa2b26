package plugin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func (c *recovery) ask(ctx context.Context, question string) error {
	return confirm(ctx, c.environment, c.yes || c.dryRun, question)
}

// intent is the planned work of a command.
type intent struct {
	question string

	// objects are the objects that would change. Empty if there is nothing to do.
	objects []string
}

// confirmAll plans, asks the user for confirmation, reads both sides again after an answer, and plans again. A plan
// without a question requires no confirmation. It returns false if an obstacle exists, and an error if the course or
// the objects differ from the confirmed ones.
func (c *recovery) confirmAll(ctx context.Context, plan func() (intent, error)) (bool, error) {
	return c.confirmPlan(ctx, plan, func() error { return c.lookAgain(ctx) })
}

// stillness is how long the target must not change before a command ends a move. While clusterctl copies or deletes, it
// changes several objects a second.
const stillness = 3 * time.Second

// confirmStopped is confirmAll for a command that ends a move. It adds an obstacle if objects of the move change after
// the confirmation: clusterctl still runs.
func (c *recovery) confirmStopped(ctx context.Context, plan func() (intent, error)) (bool, error) {
	confirmed, err := c.confirmAll(ctx, plan)
	if !confirmed || err != nil || c.dryRun {
		return confirmed, err
	}
	course, copies := c.done.Course, removalNames(c.copies())
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-time.After(stillness):
	}
	if err := c.look(ctx); err != nil {
		return false, err
	}
	if c.done.Course != course || !slices.Equal(copies, removalNames(c.copies())) {
		return false, c.wrongStage("stop it, and run the command again",
			"clusterctl still runs: objects of the move have changed in the last seconds")
	}
	_, err = plan()
	return err == nil && len(c.done.Refusals) == 0, err
}

// confirmPlan is confirmAll with a function that reads what the plan requires.
func (c *recovery) confirmPlan(ctx context.Context, plan func() (intent, error), read func() error) (bool, error) {
	before, err := plan()
	if err != nil || len(c.done.Refusals) > 0 || before.question == "" {
		return err == nil && len(c.done.Refusals) == 0, err
	}
	if err := c.ask(ctx, before.question); err != nil || c.yes || c.dryRun {
		return err == nil, err
	}
	if err := read(); err != nil {
		return false, err
	}
	after, err := plan()
	if err != nil || len(c.done.Refusals) > 0 {
		return false, err
	}
	return true, before.compare(after)
}

// compare returns an error if the objects differ from the confirmed ones.
func (i intent) compare(after intent) error {
	if slices.Equal(i.objects, after.objects) {
		return nil
	}
	return fmt.Errorf("not done: the confirmed objects %w. Now: %s", errChanged, after.question)
}

// confirm judges, asks the user for confirmation, and judges again after the answer. It returns false if there is
// nothing to do, or if an obstacle exists. It returns an error if the objects differ from the confirmed ones.
func (c *recovery) confirm(ctx context.Context, judge func() (intent, []pivot.Obstacle, error)) (bool, error) {
	before, err := c.judged(judge)
	if len(before.objects) == 0 || err != nil {
		return false, err
	}
	if err := c.ask(ctx, before.question); err != nil || c.yes || c.dryRun {
		return err == nil, err
	}
	after, err := c.judged(judge)
	if len(after.objects) == 0 || err != nil {
		return false, err
	}
	if err := before.compare(after); err != nil {
		return false, err
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
