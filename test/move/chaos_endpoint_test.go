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

// holders are the VIP holders, one after the other, each with an empty database.
var holders = []string{"ControlPlane/cp-0", "Management/management"}

// chaosOfHandovers is the story of many pivots with random faults, with another VIP holder after each pivot.
func chaosOfHandovers(c *clusters) story {
	return story{"loses no host in many pivots and handovers with random faults", func(ctx context.Context) {
		dice := newDice()
		w := c.world(ctx)
		e := newEndpoint(w.ironic.Access())
		w.cluster(ctx, "cluster", e.at())
		w.open(ctx, e, "cluster")
		w.silent(ctx, "cluster")
		for _, name := range []string{"cp-0", "worker-0", "free"} {
			w.host(ctx, name)
		}
		w.machine(ctx, "cluster", "cp-0", controlPlane())
		w.machine(ctx, "cluster", "worker-0")
		w.settled(ctx)
		// Machines keep their provider IDs in a move. Without them, the manager does not detect missing nodes.
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

// untilOnlyNodesAreMissing waits until the only obstacle is that no node could take the Ironic endpoint. There are no
// nodes here.
func (w *world) untilOnlyNodesAreMissing(ctx context.Context) {
	GinkgoHelper()
	w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition,
		stage.IsFalseBecause(infrav1.NotReadyForMoveReason, "whether the control plane can take the Ironic endpoint")))
}

// recover follows the documents after clusterctl was killed or failed: it aborts the move and begins again, or
// completes it.
func (w *world) recover(ctx context.Context) {
	GinkgoHelper()
	if w.isLeaving(ctx) {
		// Cluster API does not run there. Until the infrastructure is ready, the manager does not read the claim in the
		// workload cluster, and resume waits for hosts that depend on this claim.
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

// handOverThroughFault lets an Ironic with an empty database answer at the endpoint, with one fault. It waits until the
// Ironic has adopted all hosts, and returns their trace.
func (w *world) handOverThroughFault(ctx context.Context, dice chance, e *endpoint, holder string) trace {
	GinkgoHelper()
	faults := []fault{
		{"nothing", func(context.Context, *world, *journey, time.Duration) {}},
		{"the manager is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.here.loseManager(ctx, away)
		}},
		{"BMO is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) { w.here.loseBMO(ctx, away) }},
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
