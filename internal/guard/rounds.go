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
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/node"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
)

const (
	// filesInterval limits the delay of an edit of the override file, and how long a damaged track file stays
	// damaged.
	filesInterval = 200 * time.Millisecond

	// checkPatience is the maximum age of the last check of Ironic.
	checkPatience = 10 * time.Second

	// nodeInterval is how often the Node object is read.
	nodeInterval = 5 * time.Second

	// longestLeaseInterval is the maximum interval of renewals of the lease of the VIP.
	longestLeaseInterval = 250 * time.Millisecond

	// shortestLease tolerates a guard without processor time for a second and a half.
	shortestLease = 2 * time.Second

	// filesPatience is the maximum age of the track files for a renewal of the lease, because keepalived reads these
	// files.
	filesPatience = 5 * time.Second

	// listenPause is the time between two attempts to listen to VRRP or to watch the interface.
	listenPause = 5 * time.Second
)

// leaseValidity is how long the kernel keeps the VIP without the guard: as long as the peers wait for a silent
// holder, in whole seconds. A stall that the peers tolerate does not cost the VIP, and a leftover VIP is on two nodes
// for less than a second.
func leaseValidity(timers keepalived.Timers) time.Duration {
	return max((timers.Missed() + time.Second - 1).Truncate(time.Second), shortestLease)
}

// leaseInterval is the interval of renewals of the lease of the VIP. It tolerates two late renewals.
func leaseInterval(timers keepalived.Timers) time.Duration {
	return min(longestLeaseInterval, timers.Tolerated()/3)
}

// checkIronic checks the Ironic of this node until the context ends.
func (g *guard) checkIronic(ctx context.Context, settings vip.NodeSettings) {
	g.prober.Target = g.targetOf(settings)
	for stopped := false; ctx.Err() == nil; {
		began := time.Now()
		if g.facts.snapshot().pending {
			stopped = true
			// A stopped Ironic does not answer. Its last state stays valid.
			g.facts.update(func(s *snapshot) { s.checkedAt = began })
			pause(ctx, filesInterval)
			continue
		}
		err := g.checkOnce(ctx, settings)
		if ctx.Err() != nil {
			return
		}
		switch {
		case g.killed.Swap(false):
			g.debounce = health.Debounce{}
		case stopped:
			g.debounce.Continue(began)
		}
		stopped = false
		g.facts.latency.Observe(time.Since(began).Seconds())
		if reason := health.ReasonOf(err); reason != "" {
			g.facts.failures.WithLabelValues(reason).Inc()
		}
		g.reportWebServer(err)
		well := g.debounce.Add(err, time.Now(), g.facts.snapshot().holding)
		if before := g.facts.setIronic(well, time.Now()); before != well {
			g.log.Info("Ironic of this node", "well", well, "reason", health.ReasonOf(err), "error", err)
			notify(g.update)
		}
		pause(ctx, time.Until(began.Add(health.Interval)))
	}
}

// reportWebServer reports whether the web server of Ironic answered at the last check that Ironic did not fail.
func (g *guard) reportWebServer(err error) {
	reason := ""
	switch part := health.PartOf(err); {
	case part == health.WebServer:
		reason = health.ReasonOf(err)
	case err != nil && part != health.Files:
		return
	}
	g.facts.webServer.Set(asNumber(reason == ""))
	if reason != g.webServer {
		g.log.Info("The web server of Ironic", "answers", reason == "", "reason", reason, "error", err)
		g.webServer = reason
	}
}

func (g *guard) checkOnce(ctx context.Context, settings vip.NodeSettings) error {
	current, now := g.facts.snapshot(), time.Now()
	isLinked := g.isLinked(settings, current, now)
	if !isLinked {
		// There is no check that Ironic could fail. The gate would kill each new Ironic of a node without a link.
		g.facts.setFailing(false, 0)
	}
	switch {
	case !isLinked && !current.seen.Up:
		return &health.Failure{Reason: "InterfaceDown", Cause: fmt.Errorf("interface %s is not up", settings.Interface)}
	case !isLinked && !current.muteSince.IsZero():
		return &health.Failure{Reason: "NoAddress", Cause: current.refusal}
	case !isLinked:
		return &health.Failure{Reason: "InterfaceJustUp", Cause: fmt.Errorf("interface %s is up and has received no "+
			"advertisement of the VIP holder yet; waiting for one, for %s at most", settings.Interface, forwardPatience)}
	case !checksIronic(settings):
		return nil
	}
	err := g.prober.Check(ctx)
	g.facts.setFailing(health.PartOf(err) == health.Ironic, time.Since(now))
	g.log.once("authority", "The certificate authority changes", g.prober.Unsettled())
	return err
}

// targetOf returns what the prober checks.
func (g *guard) targetOf(settings vip.NodeSettings) health.Target {
	return health.Target{
		Socket:    settings.Files.Socket,
		APIPort:   settings.Ports.API,
		ImagePort: settings.Ports.Image,
		Address:   settings.VirtualIPs[0].Address,
		Conductor: settings.Conductor(g.options.Node),
		Authority: settings.Files.Authority,
		Images:    settings.Images,
	}
}

// followInterface stores all changes of the interface, and listens to VRRP on it while it exists.
func (g *guard) followInterface(ctx context.Context, settings vip.NodeSettings) {
	var listeners sync.WaitGroup
	defer listeners.Wait()
	listening, stop := 0, context.CancelFunc(func() {})
	defer func() { stop() }()
	const kind, message = "interface", "Cannot watch the interface"
	changed := func(seen address.Interface) {
		g.log.once(kind, message, nil)
		before := g.facts.snapshot().seen
		moved, arrived := g.facts.setSeen(seen, virtualAddresses(settings), time.Now())
		if moved {
			g.log.Info("The VIP", "held", seen.Has(virtualAddresses(settings)))
		}
		if arrived {
			notify(g.arrived)
		}
		notify(g.update)
		g.disconnect(before, seen.Lost(before, virtualAddresses(settings)))
		if !seen.Up && seen.Index != 0 && !seen.HasAny(virtualAddresses(settings)) {
			// The next holder must not receive old packets of this node.
			g.log.once("unsent", "Cannot drop packets that wait for a carrier", address.DropUnsent(seen.Index, settings.Peers))
		}
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
		err := address.Watcher{
			Interface: settings.Interface, Virtual: virtualAddresses(settings),
			Patience: member.Timers(settings).Tolerated, Before: g.facts.snapshot().seen,
			Changed: changed,
			Renewed: func(seen address.Interface) { g.facts.update(func(s *snapshot) { s.seen = seen }) },
		}.Run(ctx)
		if err != nil {
			g.log.once(kind, message, err)
		}
		pause(ctx, listenPause)
	}
}

// keepLease adds a lease to each VIP as soon as it arrives, and renews it while this node may hold the VIP. Otherwise
// it removes a VIP that keepalived does not release.
func (g *guard) keepLease(ctx context.Context, settings vip.NodeSettings) {
	interval := leaseInterval(member.Timers(settings))
	due := time.NewTimer(interval)
	defer due.Stop()
	contest := advert.Contest{Interval: time.Duration(settings.AdvertisementInterval)}
	var left leftover
	for {
		select {
		case <-ctx.Done():
			return
		case <-g.arrived:
		case <-due.C:
			due.Reset(interval)
			isLost := contest.Lost(time.Now(), g.ledger.HolderHeard(), g.facts.snapshot().arrivedAt)
			mayHold := !isLost && g.extends()
			g.endLeftover(&left, settings, mayHold)
			if !mayHold {
				continue
			}
		}
		err := address.Extend(g.facts.snapshot().seen.Index, virtualAddresses(settings),
			leaseValidity(member.Timers(settings)))
		g.log.once("lease", "Cannot extend the lease of the VIP", err)
	}
}

// extends returns true if this node may hold the VIPs that it has: both, or the one that could be added. If another
// node keeps advertising as the holder, the VIP of this node is a leftover.
func (g *guard) extends() bool {
	current := g.facts.snapshot()
	return current.running && current.fitAndArmed && time.Since(current.beat) < filesPatience
}

// readNode reads the annotations at an interval. After an error the last answer stays.
func (g *guard) readNode(ctx context.Context, settings vip.NodeSettings) {
	const cache = "armed-answer.json"
	reader := node.Reader{
		Kubeconfig: settings.Files.Kubeconfig,
		Node:       g.options.Node,
		Annotation: settings.ArmedAnnotation.Name,
		Yes:        settings.ArmedAnnotation.Value,
		// The state directory is empty after a reboot. Before, its answer is not older than that on a disk that may be
		// read-only.
		Caches: []string{inState(settings, cache), filepath.Join(g.options.Cache, cache)},
	}
	cached := reader.Cached()
	if g.answered {
		cached.Armed = g.facts.snapshot().annotation
	}
	if peers, known := g.peers.Load().(string); known {
		// A cache that cannot be written has an older answer.
		cached.Peers = peers
	}
	g.enterAnswer(cached)
	for ctx.Err() == nil {
		said, err := reader.Read(ctx)
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			g.enterAnswer(said)
			g.log.once("cache", "Cannot store the annotations of the Node object", reader.Store(said))
		} else {
			g.facts.nodeErrors.Inc()
		}
		g.log.once("node", "Cannot read the Node object, keeping the last answer", err)
		pause(ctx, nodeInterval)
	}
}

func (g *guard) enterAnswer(said node.Said) {
	g.facts.update(func(s *snapshot) { s.annotation = said.Armed })
	g.answered = true
	notify(g.update)
	if before := g.peers.Swap(said.Peers); before != said.Peers && (before != nil || said.Peers != "") {
		notify(g.reread)
	}
}

// readOverride returns the answer in the file that overrides the policy.
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

// pause waits for the duration or the end of the context.
func pause(ctx context.Context, duration time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(duration):
	}
}
