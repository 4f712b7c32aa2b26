package plugin

import (
	"cmp"
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

// planAgain reads and plans again. It returns false if an obstacle exists, and an error if the course or the objects
// differ from the confirmed ones.
type planAgain func() (bool, error)

// confirmAll plans, asks the user for confirmation, and plans again after an answer. A plan without a question requires
// no confirmation. It returns nil if an obstacle exists. Else it returns planAgain, for a command that waits later.
func (c *recovery) confirmAll(ctx context.Context, plan func() (intent, error)) (planAgain, error) {
	return c.confirmPlan(ctx, plan, func() error { return c.lookAgain(ctx) })
}

// lookAgain is look with an error if the course of the move has changed since the last read.
func (c *recovery) lookAgain(ctx context.Context) error {
	course := c.done.Course
	if err := c.look(ctx); err != nil || c.done.Course == course {
		return err
	}
	return fmt.Errorf("not done: the course of the move %w. Now: %s", errChanged, c.done.Course)
}

// stillness is how long the target must not change before a command ends a move. While clusterctl copies or deletes, it
// changes several objects a second.
const stillness = 3 * time.Second

// confirmStopped is confirmAll for a command that ends a move. It adds an obstacle if objects of the move change after
// the confirmation: clusterctl still runs.
func (c *recovery) confirmStopped(ctx context.Context, plan func() (intent, error)) (planAgain, error) {
	again, err := c.confirmAll(ctx, plan)
	if again == nil || err != nil || c.dryRun {
		return again, err
	}
	course, copies := c.done.Course, removalNames(c.copies())
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(stillness):
	}
	if err := c.look(ctx); err != nil {
		return nil, err
	}
	if c.done.Course != course || !slices.Equal(copies, removalNames(c.copies())) {
		return nil, c.wrongStage("stop it, and run the command again",
			"clusterctl still runs: objects of the move have changed in the last seconds")
	}
	if _, err = plan(); err != nil || len(c.done.Refusals) > 0 {
		return nil, err
	}
	return again, nil
}

// confirmPlan is confirmAll with a function that reads what the plan requires.
func (c *recovery) confirmPlan(ctx context.Context, plan func() (intent, error), read func() error) (planAgain, error) {
	before, err := plan()
	if err != nil || len(c.done.Refusals) > 0 {
		return nil, err
	}
	again := func() (bool, error) {
		if err := read(); err != nil {
			return false, err
		}
		after, err := plan()
		if err != nil || len(c.done.Refusals) > 0 {
			return false, err
		}
		return true, before.compare(after)
	}
	if before.question == "" {
		return again, nil
	}
	if err := c.ask(ctx, before.question); err != nil || c.yes || c.dryRun {
		return again, err
	}
	if confirmed, err := again(); !confirmed || err != nil {
		return nil, err
	}
	return again, nil
}

// compare returns an error if the objects differ from the confirmed ones.
func (i intent) compare(after intent) error {
	if slices.Equal(i.objects, after.objects) {
		return nil
	}
	return fmt.Errorf("not done: the confirmed objects %w. Now: %s", errChanged,
		cmp.Or(after.question, "nothing is to be done."))
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
