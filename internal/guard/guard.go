package guard

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// settingsInterval is the interval of the reads of the settings.
const settingsInterval = time.Second

// Options are the paths and names on the node.
type Options struct {
	// Settings is the file of the settings. A file "armed" in the same folder overrides the policy.
	Settings string

	// State is the directory of the track files without a settings file.
	State string

	// Node is the name of the node, and of its Node object.
	Node string

	// Keepalived is the executable file.
	Keepalived string

	// Listen is the address of metrics and health checks.
	Listen string

	// Cache is a directory that survives a reboot. It keeps the last answer of the API server.
	Cache string

	// Getenv reads the environment.
	Getenv func(string) string
}

type guard struct {
	options  Options
	log      *logger
	facts    *facts
	reaper   *process.Reaper
	keeper   *supervisor
	ledger   *advert.Ledger
	debounce health.Debounce

	// killed is true from the end of a term until the next check of Ironic, because the gate kills it.
	killed atomic.Bool

	// prober is used by checkIronic only. It outlives the settings, because it knows the trusted authorities.
	prober health.Prober

	// webServer is why the web server of Ironic fails. It is used by checkIronic only.
	webServer string

	// The last valid settings.
	settings vip.NodeSettings
	reread   chan struct{}

	// choice are the settings of the last choice of the interface, with its name.
	choice vip.NodeSettings

	// answered is true if the facts have the answer of the Node to the annotation of the settings.
	answered bool

	// peers is the value of the peers annotation of the Node, a string. Nil before it was read.
	peers atomic.Value

	// update requests an update of the track files, arrived a lease of the VIP.
	update, arrived chan struct{}

	// Used by keepFiles only: the last decision, and the last heard speakers.
	decision policy.Decision
	foreign  []advert.ForeignSpeaker
	book     term.Book
}

// Run runs the guard until the context ends, and then releases the VIP.
func Run(ctx context.Context, options Options, log *slog.Logger) error {
	g := &guard{
		options: options, log: newLogger(log), facts: newFacts(), reaper: process.NewReaper(),
		reread: make(chan struct{}, 1), update: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
	}
	defer g.reaper.Close()
	var others sync.WaitGroup
	defer others.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	others.Go(func() { serve(ctx, options.Listen, g.facts, log) })
	first, isValid := g.awaitSettings(ctx)
	if !isValid {
		return nil
	}
	g.settings = first
	resumes, err := g.prepare()
	if err != nil {
		return err
	}
	g.keeper = newSupervisor(g.reaper, options.Keepalived, inState(g.settings, "keepalived"), g.facts, log)
	g.keeper.resuming = resumes
	// keepalived outlives the rounds, because it requires none of them to stop.
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	var kept sync.WaitGroup
	kept.Go(func() { g.keeper.run(keeping) })
	for ctx.Err() == nil {
		g.generation(ctx)
	}
	stopKeeping()
	kept.Wait()
	return g.leave()
}

// awaitSettings waits for valid settings that differ from the current ones. A node may get its first ones later than
// its pods. It returns false if the context ended before.
func (g *guard) awaitSettings(ctx context.Context) (vip.NodeSettings, bool) {
	for {
		settings, err := g.load()
		g.facts.valid.Set(asNumber(err == nil))
		g.log.once("settings", "Cannot use the settings. Valid settings that were read before stay in use", err)
		if g.keeper == nil {
			g.facts.update(func(s *snapshot) { s.unusable, s.beat = err, time.Now() })
		}
		if err == nil && !reflect.DeepEqual(settings, g.settings) {
			return settings, true
		}
		select {
		case <-ctx.Done():
			return settings, false
		case <-g.reread:
		case <-time.After(settingsInterval):
		}
	}
}

// load reads the settings. It chooses the interface and adds the peers of the Node.
func (g *guard) load() (vip.NodeSettings, error) {
	settings, err := loadSettings(g.options)
	if err == nil {
		settings, err = g.choose(settings)
	}
	text, _ := g.peers.Load().(string)
	if err != nil || settings.Mode != vip.Unicast {
		return settings, err
	}
	settings.Peers, err = withPeers(settings, text)
	g.log.once("peers", "Cannot use the annotation "+vip.PeersAnnotation+" of the Node", err)
	return settings, nil
}

// prepare brings the node into a state in which it does not hold the VIP. It returns true if the previous guard left
// the VIP on this node.
func (g *guard) prepare() (resumes bool, err error) {
	g.log.Info("The guard starts", "node", g.options.Node, "role", g.settings.Role, "takeover", g.settings.Takeover,
		"interface", g.settings.Interface, "addresses", virtualAddresses(g.settings))
	start := time.Now()
	if seen, err := address.Observe(g.settings.Interface); err == nil && seen.Has(virtualAddresses(g.settings)) {
		// The lease of the VIP has not ended: the previous guard was killed a moment ago.
		record, _ := os.ReadFile(inState(g.settings, track.Term))
		g.book, resumes = term.Resume(term.Parse(string(record)), start), true
		g.debounce.Resume(start)
		g.facts.setIronic(true, start)
	}
	if err := g.release(); err != nil {
		return resumes, err
	}
	if seen, err := address.Observe(g.settings.Interface); err == nil {
		g.disconnect(seen, virtualAddresses(g.settings))
		// Before the first observation the node counts as deaf, which would end the term.
		g.facts.setSeen(seen, virtualAddresses(g.settings), start)
	}
	if _, err := os.Stat(g.silenceFile()); err == nil {
		// The management cluster was silent for long enough before the restart of the guard.
		start = time.Time{}
	}
	g.ledger = advert.NewLedger(start)
	return resumes, nil
}

// leave records in the track files that the node does not hold the VIP.
func (g *guard) leave() error {
	err := errors.Join(g.release(), track.Say(inState(g.settings, track.Term), term.Record{}.String()))
	g.disconnect(g.facts.snapshot().seen, virtualAddresses(g.settings))
	g.log.Info("The guard ends", "error", err)
	return err
}

// disconnect ends the connections of this node and its pods to VIPs that have left an interface.
func (g *guard) disconnect(from address.Interface, lost []netip.Addr) {
	if len(lost) == 0 {
		return
	}
	ended, err := from.Disconnect(lost)
	if len(ended) > 0 {
		g.log.Info("Ended connections of this node and its pods to a VIP that has left it", "clients", ended)
	}
	g.log.once("connections", "Cannot end connections of this node and its pods to a VIP that has left it", err)
}

// release removes the VIPs while no keepalived runs.
func (g *guard) release() error {
	removed, err := address.Remove(g.settings.Interface, virtualAddresses(g.settings))
	if len(removed) > 0 {
		g.log.Warn("Removed VIPs that no keepalived manages", "addresses", removed)
	}
	return errors.Join(err, resign(g.settings))
}

// resign records in the track files that the node does not hold the VIP and must not.
func resign(settings vip.NodeSettings) (err error) {
	for _, name := range []string{track.IronicOK, track.Armed, track.Holder} {
		err = errors.Join(err, track.Ensure(inState(settings, name), false))
	}
	return err
}

// generation runs with one version of the settings until a new valid one.
func (g *guard) generation(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var rounds sync.WaitGroup
	settings := g.settings
	rounds.Go(func() { g.followInterface(ctx, settings) })
	rounds.Go(func() { g.checkIronic(ctx, settings) })
	rounds.Go(func() { g.keepFiles(ctx, settings) })
	rounds.Go(func() { g.keepLease(ctx, settings) })
	if settings.Files.Kubeconfig != "" && settings.ArmedAnnotation.Name != "" {
		rounds.Go(func() { g.readNode(ctx, settings) })
	}
	next, isChanged := g.awaitSettings(ctx)
	cancel()
	rounds.Wait()
	if isChanged {
		g.log.Info("The settings changed")
		g.reset(next)
		g.settings = next
	}
}

// reset drops the state of the old settings.
func (g *guard) reset(next vip.NodeSettings) {
	old := g.settings
	if old.ClusterID != next.ClusterID || old.Ports != next.Ports || !slices.Equal(old.Images, next.Images) {
		g.debounce = health.Debounce{}
	}
	if old.ArmedAnnotation != next.ArmedAnnotation || old.Files.Kubeconfig != next.Files.Kubeconfig {
		g.facts.update(func(s *snapshot) { s.annotation = "" })
		g.answered = false
	}
	if old.Files.State != next.Files.State {
		_ = resign(old)
	}
}

func inState(settings vip.NodeSettings, name string) string {
	return filepath.Join(settings.Files.State, name)
}

func (g *guard) silenceFile() string {
	return inState(g.settings, "management-silent")
}

// isHandedOver returns true if the folder of handed-over clusters has a file for the clusterID. The content does not
// matter. An unreadable folder counts as empty, so that a damaged disk does not cost the management cluster the VIP.
func isHandedOver(settings vip.NodeSettings) bool {
	_, err := os.Stat(filepath.Join(inState(settings, track.HandedOver), settings.ClusterID))
	return settings.ClusterID != "" && err == nil
}

// observePolicy returns the input of the policy.
func (g *guard) observePolicy(settings vip.NodeSettings, current snapshot, now time.Time) policy.Observation {
	return policy.Observation{
		Role:       settings.Role,
		Takeover:   settings.Takeover,
		Override:   readOverride(filepath.Join(filepath.Dir(g.options.Settings), track.Armed)),
		Annotation: current.annotation,
		HandedOver: isHandedOver(settings),
		// A VIP that has left may return in its term.
		Holding:      current.holding || current.pending,
		Silence:      g.ledger.Silence(now),
		SilenceLimit: time.Duration(settings.TakeoverAfterSilence),
	}
}
