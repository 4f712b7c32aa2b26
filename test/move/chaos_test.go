package move_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

const (
	// faultAfter and outageLimit bound when a fault comes and how long something is away. A move waits for some five
	// seconds and is over soon after.
	faultAfter  = 7 * time.Second
	outageLimit = 1500 * time.Millisecond
)

// fault is something that goes wrong during a move.
type fault struct {
	name string
	do   func(ctx context.Context, w *world, j *journey, away time.Duration)
}

func faults() []fault {
	restart := func(ctx context.Context, at *side, away time.Duration) {
		at.kill()
		pass(ctx, away)
		at.start(ctx)
	}
	cut := func(ctx context.Context, at *side, away time.Duration) {
		at.cut()
		pass(ctx, away)
		at.mend()
	}
	return []fault{
		{"clusterctl is killed", func(_ context.Context, _ *world, j *journey, _ time.Duration) { j.kill() }},
		{"clusterctl is killed, and the source was away", func(ctx context.Context, w *world, j *journey, away time.Duration) {
			w.here.cut()
			j.kill()
			pass(ctx, away)
			w.here.mend()
		}},
		{"the manager of the source is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			restart(ctx, w.here, away)
		}},
		{"the manager of the target is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			restart(ctx, w.there, away)
		}},
		{"the source is away", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			cut(ctx, w.here, away)
		}},
		{"the target is away", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			cut(ctx, w.there, away)
		}},
		{"BMOs are restarted", func(ctx context.Context, w *world, _ *journey, _ time.Duration) {
			w.operators[w.here].restart(ctx)
			w.operators[w.there].restart(ctx)
		}},
	}
}

// pass lets some time pass.
func pass(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}

// chaos is the story of many pivots with random faults.
func chaos(c *clusters) story {
	return story{"loses no host in many pivots with random faults", func(ctx context.Context) {
		chosen := *faultSeed
		fmt.Fprintf(GinkgoWriter, "the random faults are those of -move.seed=%d\n", chosen)
		AddReportEntry("seed of the random faults", fmt.Sprintf("-move.seed=%d", chosen))
		// A test that fails has to be repeated with the same faults.
		dice := rand.New(rand.NewPCG(chosen, chosen))

		w := c.world(ctx)
		w.fleet(ctx, "cluster", 3, 2)
		before, acts := w.trace(ctx), actsOf(w.ironic)
		if *measure {
			// Also where a story fails.
			DeferCleanup(func(ctx context.Context) {
				table(fmt.Sprintf("%d pivots with random faults, -move.seed=%d", *pivots, chosen), []row{
					{"steps by hand, where clusterctl was killed or gave up", strconv.Itoa(len(w.steps)), "-"},
					counted("hosts re-provisioned, power-cycled or lost", len(w.harmed(ctx, before, acts, actsOf(w.ironic)))),
				})
			})
		}
		for number := range *pivots {
			w.pivotThroughChaos(ctx, dice, number)
			w.unharmed(ctx, before)
			w.settled(ctx)
		}
	}}
}

// pivotThroughChaos moves everything to the other side while one thing goes wrong, and does what the user is told to do
// where clusterctl gave up.
func (w *world) pivotThroughChaos(ctx context.Context, dice *rand.Rand, number int) {
	GinkgoHelper()
	all := faults()
	fault := all[dice.IntN(len(all))]
	after := time.Duration(dice.Int64N(int64(faultAfter)))
	moment := dice.IntN(3)
	away := time.Duration(dice.Int64N(int64(outageLimit)))
	w.readyForMove(ctx)
	journey := w.begin(ctx)
	when := "after " + after.String()
	switch moment {
	case 0:
		pass(ctx, after)
	case 1:
		when = "while hosts are copied"
		w.duringCopy(ctx, func() {})
	default:
		when = "while objects are deleted"
		w.duringDeletion(ctx, func() {})
	}
	fmt.Fprintf(GinkgoWriter, "pivot %d: %s %s, for %s\n", number, fault.name, when, away)
	fault.do(ctx, w, journey, away)
	var failed error
	Eventually(journey.ended).WithTimeout(4 * patience).Should(Receive(&failed))
	switch {
	case failed == nil:
		w.here, w.there = w.there, w.here
		w.pretend(ctx)
	case w.isLeaving(ctx):
		w.finish(ctx)
		w.clear(ctx, w.there)
	default:
		w.pauseClusters(ctx, w.here, false)
		w.readyForMove(ctx)
		w.byHand("moving again")
		w.move(ctx)
	}
}
