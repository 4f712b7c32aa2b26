package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// keepFiles updates the track files, at once after a notification and at intervals.
func (g *guard) keepFiles(ctx context.Context, settings vip.NodeSettings) {
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		case <-g.update:
		}
		g.writeFiles(settings, time.Now())
		g.reportSpeakers(time.Now())
		due.Reset(g.untilNextFiles(settings))
	}
}

// untilNextFiles returns the time to the next update. It includes the exact time when the node gives up an interface
// that is down or mute: soon after, another node may claim the VIP.
func (g *guard) untilNextFiles(settings vip.NodeSettings) time.Duration {
	current, next := g.facts.snapshot(), filesInterval
	for _, since := range []time.Time{current.downSince, current.muteSince} {
		if left := time.Until(since.Add(member.Timers(settings).Tolerated())); left > 0 {
			next = min(next, left)
		}
	}
	return next
}

// notify makes the reader of the channel run once more. It does not block.
func notify(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

func (g *guard) writeFiles(settings vip.NodeSettings, now time.Time) {
	current := g.facts.snapshot()
	g.recordSilence(settings, current, now)
	well := current.ironicWell && now.Sub(current.checkedAt) < checkPatience
	before := g.book.Record().Term
	divided := g.isDivided(settings, current)
	if divided && before != 0 {
		g.log.Warn("Another node of the control plane holds the VIP as well: its database ends on both")
		g.book = term.Book{}
	}
	current.pending = g.enterTerm(settings, current, well && !divided, now)
	if before != 0 && g.book.Record().Term == 0 && checksIronic(settings) {
		// The gate kills Ironic, which is not healthy until it has answered again. Another node may hold the VIP earlier.
		g.killed.Store(true)
		g.facts.setIronic(false, now)
		well = false
	}
	fit := !divided && g.isLinked(settings, current, now) &&
		policy.Fit(settings.Standby, well, current.holding, now.Sub(current.holdingSince))
	decision := policy.Decide(g.observePolicy(settings, current, now))
	if decision != g.decision {
		g.log.Info("May this node hold the VIP", "armed", decision.Armed, "reason", decision.Reason)
		g.decision = decision
	}
	g.facts.setVerdict(fit, decision, now)
	record := g.book.Record()
	record.Patience = member.Timers(settings).Tolerated()
	record.Failing = min(current.failing.Truncate(time.Second), term.HungAfter)
	err := errors.Join(
		track.Ensure(inState(settings, track.IronicOK), fit), track.Ensure(inState(settings, track.Armed), decision.Armed),
		track.Ensure(inState(settings, track.Holder), current.holding),
		track.Say(inState(settings, track.Interface), settings.Interface+"\n"),
		track.Say(inState(settings, track.Term), record.String()))
	g.log.once("files", "Cannot write the track files, so keepalived must not run", err)
	g.direct(settings, current.seen, err == nil, now)
}

// enterTerm updates the term of the VIP, and returns true if the VIP has left and may return in the same term.
func (g *guard) enterTerm(settings vip.NodeSettings, current snapshot, well bool, now time.Time) bool {
	interval := time.Duration(settings.AdvertisementInterval)
	before := g.book.Record().Term
	seen := term.Sight{
		Holding: current.holding, Stamp: current.seen.Stamp(virtualAddresses(settings)), Well: well,
		// Another holder advertises once in an interval.
		Doubt: now.Sub(current.doubtedAt) < 2*interval, MayHaveHeld: g.ledger.MayHaveHeld(), Margin: interval,
	}
	g.book.Enter(now, seen)
	if after := g.book.Record().Term; after != before {
		g.log.Info("The term of the VIP", "before", before, "now", after)
	}
	pending := g.book.Pending(seen)
	g.facts.update(func(s *snapshot) { s.pending = pending })
	return pending
}

// isDivided returns true if another control-plane node advertises as the VIP holder too. The two nodes did not hear
// each other for some time, and the controllers may have used either Ironic. Both databases end, and both nodes
// release the VIP.
func (g *guard) isDivided(settings vip.NodeSettings, current snapshot) bool {
	// Before that, the other node may be the previous holder, or one that lost the election.
	election := current.arrivedAt.Add(member.Timers(settings).Missed())
	return settings.Role == vip.ControlPlane && current.holding && g.ledger.ConflictHeard().After(election)
}

// isLinked returns true if the node sends and receives packets, or will do so before other nodes miss it.
func (g *guard) isLinked(settings vip.NodeSettings, current snapshot, now time.Time) bool {
	return current.linked(member.Timers(settings), g.ledger.HolderHeard(), now)
}

// recordSilence counts silence only while the interface can receive advertisements. It stores a silence that was long
// enough, so that it survives a restart of the guard.
func (g *guard) recordSilence(settings vip.NodeSettings, current snapshot, now time.Time) {
	limit := time.Duration(settings.TakeoverAfterSilence)
	silent := limit > 0 && g.ledger.Silence(now) >= limit
	if !g.isLinked(settings, current, now) {
		g.ledger.CannotHear(now, limit)
	}
	if !silent {
		_ = os.Remove(g.silenceFile())
		return
	}
	g.log.once("silence", "Cannot store that the management side is silent", track.Ensure(g.silenceFile(), true))
}

// direct sets how the supervisor runs keepalived, by the settings and the interface.
func (g *guard) direct(settings vip.NodeSettings, seen address.Interface, writable bool, now time.Time) {
	wanted := target{device: settings.Interface, virtual: virtualAddresses(settings)}
	if seen.Index == 0 || !writable {
		g.keeper.Want(wanted)
		return
	}
	wanted.incarnation = fmt.Sprint(settings.Interface, " ", seen.Index, " ", directoryOf(settings))
	var err error
	wanted.page, err = render(settings, g.options.Node, seen)
	g.log.once("render", "Cannot configure keepalived yet", err)
	if err != nil {
		// The own address may be missing for a moment only, so keepalived keeps its configuration. But a standby that is
		// deaf would take the VIP beside its holder.
		wanted.page = g.keeper.Page(wanted.incarnation)
		if wanted.isDeaf(seen) && !seen.HasAny(wanted.virtual) {
			wanted.page = page{}
		}
		wanted.waits = len(wanted.sources) > 0 && !seen.Has(wanted.sources)
	}
	g.facts.setRefusal(err, wanted.isMute(seen), now)
	g.keeper.Want(wanted)
}

// directoryOf identifies the state directory: keepalived watches the directory that existed at its start.
func directoryOf(settings vip.NodeSettings) string {
	var found unix.Stat_t
	if unix.Stat(settings.Files.State, &found) != nil {
		return "missing"
	}
	return fmt.Sprint(settings.Files.State, " ", found.Ino)
}
