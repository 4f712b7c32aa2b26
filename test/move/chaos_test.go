package move_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// faultAfter limits the time until a fault, and outageLimit its length. A move waits for some five seconds and ends
	// soon after.
	faultAfter  = 7 * time.Second
	outageLimit = 1500 * time.Millisecond
)

// fault is something that goes wrong during a move.
type fault struct {
	name string
	do   func(ctx context.Context, w *world, j *journey, away time.Duration)
}

func faults() []fault {
	return []fault{
		{"clusterctl is killed", func(_ context.Context, _ *world, j *journey, _ time.Duration) { j.kill() }},
		{"clusterctl is killed, and the source did not answer", func(ctx context.Context, w *world, j *journey, away time.Duration) {
			w.here.cut()
			j.kill()
			pass(ctx, away)
			w.here.mend()
		}},
		{"the manager of the source is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.here.loseManager(ctx, away)
		}},
		{"the manager of the target is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.there.loseManager(ctx, away)
		}},
		{"the source does not answer", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.here.beAway(ctx, away)
		}},
		{"the target does not answer", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.there.beAway(ctx, away)
		}},
		{"BMOs are restarted", func(ctx context.Context, w *world, _ *journey, _ time.Duration) {
			w.here.restartBMO(ctx)
			w.there.restartBMO(ctx)
		}},
		{"BMO of the source is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.here.loseBMO(ctx, away)
		}},
		{"BMO of the target is killed", func(ctx context.Context, w *world, _ *journey, away time.Duration) {
			w.there.loseBMO(ctx, away)
		}},
	}
}

// loseManager kills the manager, and starts another one after a while.
func (s *side) loseManager(ctx context.Context, away time.Duration) {
	GinkgoHelper()
	s.kill()
	pass(ctx, away)
	s.start(ctx)
}

// beAway cuts the connections to the API server for a while.
func (s *side) beAway(ctx context.Context, away time.Duration) {
	GinkgoHelper()
	s.cut()
	pass(ctx, away)
	s.mend()
}

// pass waits for a time.
func pass(ctx context.Context, length time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(length):
	}
}

// upgradedHost is the host that gets another image between moves, so that its leftover is out of date.
const upgradedHost = "upgraded"

// chaos is the story of many pivots with random faults.
func chaos(c *clusters) story {
	return story{"loses no host in many pivots with random faults", func(ctx context.Context) {
		// A failed test must be repeatable with the same faults.
		dice := newDice()
		w := c.world(ctx)
		w.host(ctx, upgradedHost, imaged)
		w.fleet(ctx, "cluster", 3, 2)
		all, acts := w.trace(ctx), actsOf(w.ironic)
		steady, upgraded := all.except(upgradedHost), all.only(upgradedHost)
		upgrades, besideLeftovers := 0, 0
		if *measure {
			// The table is printed after a failure, too.
			DeferCleanup(func(ctx context.Context) {
				table(fmt.Sprintf("%d pivots with random faults, -move.seed=%d", *pivots, *faultSeed), []row{
					{"pivot commands, where clusterctl was killed or gave up", strconv.Itoa(w.commands()), "-"},
					{"times the target went on beside leftovers in the source", strconv.Itoa(besideLeftovers), "-"},
					{"images written anew by the user, some while the move began", strconv.Itoa(upgrades), "-"},
					counted("hosts re-provisioned, power-cycled or lost", len(w.harmed(ctx, steady, acts, actsOf(w.ironic)))),
					counted("images written that nobody asked for", w.asked(all, "active")-upgrades),
				})
			})
		}
		for _, at := range []*side{w.here, w.there} {
			w.deployManager(ctx, at)
		}
		left := false
		for number := range *pivots {
			w.readyForMove(ctx)
			upgrades += dice.upgrade(ctx, w, number)
			left = w.pivotThroughChaos(ctx, dice, number, left)
			if left {
				besideLeftovers++
			}
			w.unharmed(ctx, steady)
			w.settled(ctx)
			if w.asked(upgraded, "active") > 0 {
				upgraded = w.trace(ctx).only(upgradedHost)
			}
			w.unharmed(ctx, upgraded)
			Expect(w.asked(all, "active")).To(Equal(upgrades), "each image is written once")
		}
	}}
}

// chance chooses the faults.
type chance struct{ *rand.Rand }

func newDice() chance {
	GinkgoHelper()
	fmt.Fprintf(GinkgoWriter, "the random faults are those of -move.seed=%d\n", *faultSeed)
	AddReportEntry("seed of the random faults", fmt.Sprintf("-move.seed=%d", *faultSeed))
	return chance{rand.New(rand.NewPCG(*faultSeed, *faultSeed))}
}

// upgrade gives a host another image in every third move, right before it begins or early enough to be complete. It
// returns the number of upgrades.
func (d chance) upgrade(ctx context.Context, w *world, number int) int {
	GinkgoHelper()
	upgrades, waits := d.IntN(3) == 0, d.IntN(2) == 0
	if !upgrades {
		return 0
	}
	image := fmt.Sprintf("http://images.example/upgraded-%d.img", number)
	fmt.Fprintf(GinkgoWriter, "pivot %d: host %s gets image %s, and the move waits: %t\n", number, upgradedHost, image, waits)
	w.change(ctx, upgradedHost, func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image.URL = image })
	if waits {
		w.eventually(ctx, upgradedHost, inState(bmov1alpha1.StateProvisioned), isFine(),
			HaveField("Status.Provisioning.Image.URL", image))
		w.settled(ctx)
		w.readyForMove(ctx)
	}
	return 1
}

// pivotThroughChaos moves all objects to the other side with one fault, and follows the documents if clusterctl failed.
// left is true if the target has leftovers of an earlier move. It returns true if the source has leftovers of this
// move.
func (w *world) pivotThroughChaos(ctx context.Context, dice chance, number int, left bool) bool {
	GinkgoHelper()
	tidies, givesUp, leaves := dice.IntN(2) == 0, dice.IntN(2) == 0, dice.IntN(2) == 0
	if left && (tidies || w.hasHalves(ctx, w.there)) {
		left = false
		w.here, w.there = w.there, w.here
		w.command(ctx, "clean")
		w.here, w.there = w.there, w.here
	}
	failed := w.moveThroughFault(ctx, dice, number, left)
	switch {
	case failed == nil:
		w.goOnThere(ctx)
	case (givesUp || left) && w.pivot(ctx, "abort") == done:
		w.byHand("pivot abort")
		w.readyForMove(ctx)
		w.move(ctx)
	case leaves && w.isLeaving(ctx):
		// The user goes on in the target, as after the loss of the source.
		w.here, w.there = w.there, w.here
		w.byHand("pivot unpause")
		Expect(w.runPlugin(ctx, "unpause")).To(Equal(done))
		w.pretend(ctx)
		w.keepHeld(ctx)
		return true
	default:
		// The plugin detects whether a move had begun, and whether a host is still busy.
		w.command(ctx, "run")
		w.goOnThere(ctx)
	}
	w.keepHeld(ctx)
	return false
}

// moveThroughFault runs clusterctl with one fault, and returns its error.
func (w *world) moveThroughFault(ctx context.Context, dice chance, number int, left bool) (failed error) {
	GinkgoHelper()
	all := faults()
	fault := all[dice.IntN(len(all))]
	after := time.Duration(dice.Int64N(int64(faultAfter)))
	moment := dice.IntN(4)
	away := time.Duration(dice.Int64N(int64(outageLimit)))
	journey := w.begin(ctx)
	when := "after " + after.String()
	switch {
	case moment == 0 || left:
		// Leftovers exist already, so their events do not mark the moments of the cases below.
		pass(ctx, after)
	case moment == 1:
		when = "while hosts are copied"
		w.duringCopy(ctx)
	case moment == 2:
		when = "while objects are deleted"
		w.duringDeletion(ctx)
	default:
		when = "while the target resumes hosts"
		Eventually(journey.ended).WithTimeout(4 * patience).Should(Receive(Not(HaveOccurred())))
		journey.ended <- nil
		pass(ctx, after/10)
	}
	fmt.Fprintf(GinkgoWriter, "pivot %d: %s %s, for %s, onto leftovers: %t\n", number, fault.name, when, away, left)
	fault.do(ctx, w, journey, away)
	Eventually(journey.ended).WithTimeout(4 * patience).Should(Receive(&failed))
	return failed
}

// command runs a command of the plugin that changes both sides.
func (w *world) command(ctx context.Context, name string) {
	GinkgoHelper()
	w.byHand("pivot " + name)
	Expect(w.pivot(ctx, name)).To(Equal(done), name)
}

// commands counts the commands of the plugin that the story ran in place of the user.
func (w *world) commands() int {
	count := 0
	for _, step := range w.steps {
		if strings.HasPrefix(step, "pivot ") {
			count++
		}
	}
	return count
}

// keepHeld runs pivot keep for hosts that arrived on a leftover that is being deleted.
func (w *world) keepHeld(ctx context.Context) {
	GinkgoHelper()
	for name, host := range w.hosts(ctx, Default, w.here) {
		if !host.DeletionTimestamp.IsZero() {
			w.byHand("pivot keep")
			w.keep(ctx, name)
		}
	}
}

// hasHalves returns true if a killed clusterctl has left an object on a side that is being deleted, besides hosts.
func (w *world) hasHalves(ctx context.Context, at *side) bool {
	GinkgoHelper()
	for _, list := range leftovers() {
		Expect(at.client.List(ctx, list, client.InNamespace(w.namespace))).To(Succeed())
		for _, object := range objectsOf(list) {
			if _, isHost := object.(*bmov1alpha1.BareMetalHost); !isHost && !object.GetDeletionTimestamp().IsZero() {
				return true
			}
		}
	}
	return false
}
