package guard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/node"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

const (
	// filesInterval is how soon an edit of the override file counts, and how long a damaged track file stays damaged. It
	// is the beat of all rounds, and the intervals of rounds are multiples of it.
	filesInterval = 200 * time.Millisecond

	// toldInterval is how often the files are looked at while the kernel tells of changes and has told of none.
	toldInterval = time.Second

	// checkPatience is how old the last check of Ironic may be before its result counts no longer.
	checkPatience = 10 * time.Second

	// nodeInterval is how often the Node object is read.
	nodeInterval = 5 * time.Second

	// leaseInterval is how often the guard extends the lease of the address.
	leaseInterval = 600 * time.Millisecond

	// shortestLease is long enough for a guard that gets no processor for a second and a half.
	shortestLease = 2 * time.Second

	// filesPatience is how old the last look at the files may be for the guard to extend the lease: keepalived reads what
	// the files said then.
	filesPatience = 5 * time.Second

	// doubtPause lies between a check that failed at once and the next one, while Ironic still counts as well.
	doubtPause = 500 * time.Millisecond

	// listenPause lies between two attempts to listen: to VRRP, or to what the kernel tells.
	listenPause = 5 * time.Second
)

// leaseValidity is for how long the kernel keeps the address without the guard: as long as the others wait for a
// holder that is silent, in whole seconds. So a stall that the others forgive does not cost the address, and an address
// that is left behind is on two nodes for less than a second.
func leaseValidity(interval time.Duration) time.Duration {
	return max((3*interval + time.Second - 1).Truncate(time.Second), shortestLease)
}

// linkPatience is for how long a holder without a carrier stays the holder. None of the others misses it sooner: they
// wait for three advertisements, and the last one was sent at most one interval before.
func linkPatience(interval time.Duration) time.Duration {
	return 2 * interval
}

// checkIronic looks at the Ironic of this node, again and again.
func (g *guard) checkIronic(ctx context.Context, settings vip.NodeSettings) {
	prober := g.proberFor(settings)
	if prober != nil {
		defer prober.Close()
	}
	for {
		began := time.Now()
		if current := g.facts.snapshot(); current.pending {
			// A frozen Ironic does not answer. What is known of it stays true.
			g.facts.setIronic(current.ironicWell, began)
			pause(ctx, filesInterval)
			if ctx.Err() != nil {
				return
			}
			continue
		}
		err := g.checkOnce(ctx, settings, prober)
		if ctx.Err() != nil {
			return
		}
		g.facts.latency.Observe(time.Since(began).Seconds())
		if reason := health.ReasonOf(err); reason != "" {
			g.facts.failures.WithLabelValues(reason).Inc()
		}
		well := g.debounce.Add(err, time.Now(), g.facts.snapshot().holding)
		if before := g.facts.setIronic(well, time.Now()); before != well {
			g.log.Info("Ironic of this node", "well", well, "reason", health.ReasonOf(err), "error", err)
			nudge(g.look)
		}
		pause(ctx, g.untilNextCheck(began, well, err))
		if prober == nil && looksAtIronic(settings) {
			prober = g.proberFor(settings)
		}
	}
}

// untilNextCheck is the time to the next check after one that began then. Where somebody says no, or nobody is there to
// say anything, it is asked again soon; one that was too slow is not pressed.
func (g *guard) untilNextCheck(began time.Time, well bool, failure error) time.Duration {
	if well && failure != nil && !health.IsSlow(failure) {
		return time.Until(began.Add(doubtPause))
	}
	return g.rhythm.Until(began.Add(health.Interval))
}

func (g *guard) checkOnce(ctx context.Context, settings vip.NodeSettings, prober *health.Prober) error {
	interval := time.Duration(settings.AdvertisementInterval)
	switch {
	case !g.facts.snapshot().linked(interval, time.Now()):
		return &health.Failure{Reason: "InterfaceDown", Cause: fmt.Errorf("interface %s is not up", settings.Interface)}
	case !looksAtIronic(settings):
		return nil
	case prober == nil:
		return &health.Failure{Reason: "NoCredentials", Cause: errors.New("the credentials for Ironic cannot be read")}
	default:
		return prober.Check(ctx)
	}
}

// proberFor returns nil when there is nothing to look at, or nothing to look with.
func (g *guard) proberFor(settings vip.NodeSettings) *health.Prober {
	if !looksAtIronic(settings) {
		return nil
	}
	prober, err := health.New(health.Target{
		Server:    "127.0.0.1",
		APIPort:   settings.Ports.API,
		ImagePort: settings.Ports.Image,
		Address:   settings.VirtualIPs[0].Address,
		Conductor: settings.Conductor(g.options.Node),
		Username:  settings.Files.Username,
		Password:  settings.Files.Password,
		Authority: settings.Files.Authority,
		Images:    settings.Images,
	}, time.Now)
	g.logOnce("credentials", "Cannot look at Ironic", err)
	return prober
}

// keepFiles makes the track files say what is true, at once when told to and often enough otherwise.
func (g *guard) keepFiles(ctx context.Context, settings vip.NodeSettings) {
	g.pages, g.tracks = pages{}, newTracks(settings)
	due, soon := time.NewTimer(0), false
	defer due.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.touched:
			// Whoever writes all the time, and be it this guard in vain, is heard once in a beat.
			if !soon {
				soon = true
				due.Reset(g.rhythm.After(filesInterval))
			}
			continue
		case <-due.C:
		case <-g.look:
		}
		soon = false
		g.writeFiles(settings, time.Now())
		g.reportSpeakers(time.Now())
		due.Reset(g.untilNextFiles(settings))
	}
}

// untilNextFiles is the time to the next look at the files. The end of the patience with an interface that is down is
// met exactly: soon after, another node may take the address.
func (g *guard) untilNextFiles(settings vip.NodeSettings) time.Duration {
	current := g.facts.snapshot()
	if g.told.Load() && current.seen.Up && !current.pending {
		return g.rhythm.After(toldInterval)
	}
	regular := g.rhythm.After(filesInterval)
	if left := time.Until(current.downSince.Add(linkPatience(time.Duration(settings.AdvertisementInterval)))); left > 0 {
		return min(regular, left)
	}
	return regular
}

// watchFiles has the kernel tell of what happens to the track files and the override file.
func (g *guard) watchFiles(ctx context.Context, settings vip.NodeSettings) {
	for ctx.Err() == nil {
		err := track.Watch(ctx, func() {
			g.told.Store(true)
			nudge(g.touched)
		}, settings.Files.State, filepath.Dir(g.options.Settings))
		g.told.Store(false)
		nudge(g.touched)
		g.logOnce("watch", "Is not told of changes of files, and looks at them more often", err)
		pause(ctx, listenPause)
	}
}

// tracks are the files of one version of the settings.
type tracks struct {
	ironicOK, armed, holder, term track.Keeper
}

func newTracks(settings vip.NodeSettings) tracks {
	keeper := func(name string) track.Keeper { return track.Keeper{Path: inState(settings, name)} }
	return tracks{
		ironicOK: keeper(track.IronicOK), armed: keeper(track.Armed), holder: keeper(track.Holder),
		term: keeper(track.Term),
	}
}

// nudge wakes whoever waits for the channel. One that is awake already looks again.
func nudge(channel chan<- struct{}) {
	select {
	case channel <- struct{}{}:
	default:
	}
}

func (g *guard) writeFiles(settings vip.NodeSettings, now time.Time) {
	current := g.facts.snapshot()
	g.keepSilence(settings, current, now)
	well := current.ironicWell && now.Sub(current.checkedAt) < checkPatience
	current.pending = g.enterTerm(settings, current, well, now)
	fit := current.linked(time.Duration(settings.AdvertisementInterval), now) &&
		policy.Fit(settings.Standby, well, current.holding, now.Sub(current.holdingSince))
	decision := policy.Decide(g.observePolicy(settings, current, now))
	if decision != g.decision {
		g.log.Info("May this node hold the address", "armed", decision.Armed, "reason", decision.Reason)
		g.decision = decision
	}
	g.facts.setVerdict(fit, decision, now)
	err := errors.Join(
		g.tracks.ironicOK.Ensure(fit), g.tracks.armed.Ensure(decision.Armed), g.tracks.holder.Ensure(current.holding),
		g.tracks.term.Say(g.book.Record().String()))
	g.logOnce("files", "Cannot write the track files, so keepalived must not run", err)
	g.wish(settings, current.seen, err == nil)
}

// enterTerm decides on the term of the address, and returns whether the address has left and may return in it.
func (g *guard) enterTerm(settings vip.NodeSettings, current snapshot, well bool, now time.Time) bool {
	interval := time.Duration(settings.AdvertisementInterval)
	before := g.book.Record().Term
	seen := term.Sight{
		Holding: current.holding, Stamp: current.seen.Stamp(virtualAddresses(settings)), Well: well,
		MayHaveHeld: g.ledger.MayHaveHeld(), Margin: interval,
	}
	g.book.Enter(now, seen)
	if after := g.book.Record().Term; after != before {
		g.log.Info("The term of the address", "before", before, "now", after)
	}
	pending := g.book.Pending(seen)
	g.facts.setPending(pending)
	return pending
}

// keepSilence lets silence count only while somebody could have been heard, and remembers across a restart of the guard
// that it was long enough.
func (g *guard) keepSilence(settings vip.NodeSettings, current snapshot, now time.Time) {
	limit := time.Duration(settings.TakeoverAfterSilence)
	silent := limit > 0 && g.ledger.Silence(now) >= limit
	if !current.linked(time.Duration(settings.AdvertisementInterval), now) {
		g.ledger.CannotHear(now, limit)
	}
	_, err := os.Stat(g.silenceFile())
	switch {
	case silent && errors.Is(err, fs.ErrNotExist):
		g.logOnce("silence", "Cannot remember that the management side is silent",
			track.Replace(g.silenceFile(), []byte(track.Value(true))))
	case !silent && err == nil:
		_ = os.Remove(g.silenceFile())
	}
}

// wish tells the supervisor how keepalived should run with what is known of the interface.
func (g *guard) wish(settings vip.NodeSettings, seen address.Interface, writable bool) {
	wanted := wish{device: settings.Interface, virtual: virtualAddresses(settings)}
	if seen.Index == 0 || !writable {
		g.keeper.Want(wanted)
		return
	}
	wanted.incarnation = fmt.Sprint(settings.Interface, " ", seen.Index, " ", directoryOf(settings))
	page, err := g.pages.render(settings, g.options.Node, seen)
	g.logOnce("render", "Cannot configure keepalived yet", err)
	if err != nil {
		// An own address may go for a moment; what keepalived has is as good as anything.
		page.config = g.keeper.Config(wanted.incarnation)
	}
	wanted.page = page
	g.keeper.Want(wanted)
}

// directoryOf identifies the state directory: keepalived watches the one that it found, not the one that came after.
func directoryOf(settings vip.NodeSettings) string {
	info, err := os.Stat(settings.Files.State)
	if err != nil {
		return "missing"
	}
	return fmt.Sprint(settings.Files.State, " ", inode(info))
}

func inode(info fs.FileInfo) uint64 {
	if system, ok := info.Sys().(*syscall.Stat_t); ok {
		return system.Ino
	}
	return 0
}

// followInterface enters all changes of the interface, and listens to VRRP on it while it is there.
func (g *guard) followInterface(ctx context.Context, settings vip.NodeSettings) {
	var listeners sync.WaitGroup
	defer listeners.Wait()
	listening, stop := 0, context.CancelFunc(func() {})
	defer func() { stop() }()
	changed := func(seen address.Interface) {
		if g.facts.setSeen(seen, virtualAddresses(settings), time.Now()) {
			held := seen.Has(virtualAddresses(settings))
			g.log.Info("The address", "held", held)
			if held {
				nudge(g.arrived)
			}
		}
		nudge(g.look)
		if seen.Index == listening {
			return
		}
		stop()
		listening = seen.Index
		g.log.Info("The interface", "name", settings.Interface, "present", seen.Index != 0)
		var listen context.Context
		listen, stop = context.WithCancel(ctx)
		if seen.Index != 0 {
			for _, virtual := range settings.VirtualIPs {
				isIPv4 := virtual.Address.Is4()
				listeners.Go(func() { g.listen(listen, settings, seen.Index, isIPv4) })
			}
		}
	}
	for ctx.Err() == nil {
		err := address.Watch(ctx, settings.Interface, changed)
		g.logOnce("interface", "Cannot watch the interface", err)
		pause(ctx, listenPause)
	}
}

// keepLease gives the address a lease as soon as it arrives, and extends that while this node means to hold it.
func (g *guard) keepLease(ctx context.Context, settings vip.NodeSettings) {
	due := time.NewTimer(g.rhythm.After(leaseInterval))
	defer due.Stop()
	contest := advert.Contest{Interval: time.Duration(settings.AdvertisementInterval)}
	var leases address.Leases
	defer leases.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.arrived:
		case <-due.C:
			due.Reset(g.rhythm.After(leaseInterval))
			if contest.Lost(time.Now(), g.ledger.HolderHeard(), g.facts.snapshot().holdingSince) || !g.extends() {
				continue
			}
		}
		err := leases.Extend(g.facts.snapshot().seen.Index, virtualAddresses(settings),
			leaseValidity(time.Duration(settings.AdvertisementInterval)))
		g.logOnce("lease", "Cannot extend the lease of the address", err)
	}
}

// extends says whether this node means to hold the address that it has. Where another node goes on speaking as the
// holder, an address that is still here is a leftover, and its lease has to end.
func (g *guard) extends() bool {
	current := g.facts.snapshot()
	return current.holding && current.running && current.fitAndArmed && time.Since(current.beat) < filesPatience
}

// readNode asks for the annotation, again and again. Without an answer the last one stays.
func (g *guard) readNode(ctx context.Context, settings vip.NodeSettings) {
	const cache = "armed-answer.json"
	reader := node.Reader{
		Kubeconfig: settings.Files.Kubeconfig,
		Node:       g.options.Node,
		Annotation: settings.ArmedAnnotation.Name,
		Yes:        settings.ArmedAnnotation.Value,
		Caches:     []string{filepath.Join(g.options.Cache, cache), inState(settings, cache)},
	}
	defer reader.Close()
	g.enterAnswer(reader.Cached())
	for ctx.Err() == nil {
		said, err := reader.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			g.enterAnswer(said)
			err = reader.Store(said)
			g.logOnce("cache", "Cannot keep what the Node object says", err)
			err = nil
		} else {
			g.facts.nodeErrors.Inc()
		}
		g.logOnce("node", "Cannot read the Node object and goes by the last answer", err)
		pause(ctx, g.rhythm.After(nodeInterval))
	}
}

func (g *guard) enterAnswer(said policy.Answer) {
	g.facts.setAnnotation(said)
	nudge(g.look)
}

// readOverride returns what a person wrote into the file that overrules the policy.
func readOverride(path string) policy.Answer {
	content, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		return policy.Unclear
	}
	switch strings.TrimSpace(string(content)) {
	case "1":
		return policy.Yes
	case "0":
		return policy.No
	default:
		return policy.Unclear
	}
}

// pause waits, but not past the end of the context.
func pause(ctx context.Context, duration time.Duration) {
	timer := time.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
