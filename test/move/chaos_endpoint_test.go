package move_test

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"time"

	. "github.com/onsi/ginkgo/v2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// holders take the Ironic endpoint in turn, each with an empty database.
var holders = []string{"ControlPlane/cp-0", "Management/management"}

// chaosOfHandovers is the story of many pivots with random faults, where the Ironic endpoint changes its holder after each
// of them.
func chaosOfHandovers(c *clusters) story {
	return story{"loses no host in many pivots and handovers with random faults", func(ctx context.Context) {
		dice := newDice()
		w := c.world(ctx)
		e := newEndpoint(accessTo(w.ironic))
		w.cluster(ctx, "cluster", e.at())
		w.open(ctx, e, "cluster")
		w.silent(ctx, "cluster")
		for _, name := range []string{"cp-0", "worker-0", "free"} {
			w.host(ctx, name)
		}
		w.machine(ctx, "cluster", "cp-0", controlPlane())
		w.machine(ctx, "cluster", "worker-0")
		w.settled(ctx)
		// Without provider IDs, which Machines keep in a move, the manager does not know that nodes may be missing.
		w.pretend(ctx)
		all, acts := w.trace(ctx), actsOf(w.ironic)
		if *measure {
			DeferCleanup(func(ctx context.Context) {
				table(fmt.Sprintf("%d pivots with a handover each and random faults, -move.seed=%d", *pivots, *faultSeed), []row{
					{"pivot commands, where clusterctl was killed or gave up", strconv.Itoa(w.commands()), "-"},
					counted("hosts re-provisioned, power-cycled or lost", len(w.harmed(ctx, all, acts, actsOf(w.ironic)))),
				})
			})
		}
		before := all
		for number := range *pivots {
			w.untilOnlyNodesAreMissing(ctx)
			if failed := w.moveThroughFault(ctx, dice, number, false); failed == nil {
				w.goOnThere(ctx)
			} else {
				w.recover(ctx)
			}
			w.unharmed(ctx, before)
			before = w.handOverThroughFault(ctx, dice, e, holders[number%len(holders)])
			w.settled(ctx)
		}
	}}
}

// untilOnlyNodesAreMissing waits until nothing is in the way of a move, besides nodes that could take the Ironic endpoint.
// There are no nodes here.
func (w *world) untilOnlyNodesAreMissing(ctx context.Context) {
	GinkgoHelper()
	w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition,
		stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "could take the Ironic endpoint is not known")))
}

// recover does what the user is told to do where clusterctl was killed or gave up: it gives the move up and begins again, or
// completes it.
func (w *world) recover(ctx context.Context) {
	GinkgoHelper()
	if w.isLeaving(ctx) {
		// Cluster API does not run there. Before it has found the infrastructure ready, the manager does not ask the workload
		// cluster who manages it, and resume waits for hosts that wait for the answer.
		w.goOnThere(ctx)
		w.here, w.there = w.there, w.here
		w.command(ctx, "resume")
		w.goOnThere(ctx)
		return
	}
	w.command(ctx, "abort")
	w.untilOnlyNodesAreMissing(ctx)
	w.move(ctx)
}

// handOverThroughFault has another Ironic take the endpoint, which knows no host, while something goes wrong. All hosts are
// adopted. It returns how they are then.
func (w *world) handOverThroughFault(ctx context.Context, dice chance, e *endpoint, holder string) trace {
	GinkgoHelper()
	faults := []fault{
		{"nothing", func(context.Context, *world, *journey, time.Duration) {}},
		{"the manager is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.here.loseManager(ctx, away)
		}},
		{"BMO is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) { w.here.bmo.lose(ctx, away) }},
		{"the API server does not answer", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.here.beAway(ctx, away)
		}},
	}
	fault := faults[dice.IntN(len(faults))]
	after, away := time.Duration(dice.Int64N(int64(faultAfter))), time.Duration(dice.Int64N(int64(outageLimit)))
	fmt.Fprintf(GinkgoWriter, "handover to %s: %s after %s, for %s\n", holder, fault.name, after, away)
	before := w.trace(ctx)
	w.ironic.Empty()
	e.heldBy(clusterID + "-" + path.Base(holder))
	pass(ctx, after)
	fault.do(ctx, w, nil, away)
	w.adopted(ctx, before, holder)
	return w.trace(ctx)
}
