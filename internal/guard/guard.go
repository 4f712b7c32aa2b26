package guard

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
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

// settingsInterval is how often the files of the settings are looked at.
const settingsInterval = time.Second

// Options say where things are on the node.
type Options struct {
	// Settings is the file of the settings. A file "armed" beside it overrules the policy.
	Settings string

	// State is the directory of the track files when there is no file of settings to name it.
	State string

	// Node is the name of the node, and of its Node object.
	Node string

	// Keepalived is the executable file.
	Keepalived string

	// Listen is where metrics and health are served.
	Listen string

	// Cache is a directory that survives a reboot; it keeps the last answer of the API server.
	Cache string

	// Getenv reads the environment.
	Getenv func(string) string
}

// guard is one run of the program.
type guard struct {
	options  Options
	log      *slog.Logger
	facts    *facts
	reaper   *process.Reaper
	keeper   *supervisor
	ledger   *advert.Ledger
	debounce health.Debounce

	// prober is for the round that checks Ironic. It outlives the settings, because it knows which authorities count.
	prober *health.Prober

	signals <-chan os.Signal

	// The last settings that could be used.
	settings vip.NodeSettings
	reread   chan struct{}

	// choice are the settings that the interface was last chosen for, and chosen is its name.
	choice vip.NodeSettings
	chosen string

	// peers is what the annotation of the Node says of peers, a string. Nil before it was read.
	peers atomic.Value

	// look asks for the track files to be written at once, arrived for a lease of the VIP.
	look, arrived chan struct{}

	// Only for keepFiles: what was last rendered and decided, and who was last heard.
	pages    pages
	decision policy.Decision
	foreign  []advert.ForeignSpeaker
	book     term.Book

	// resume says that the guard before left this node with the address.
	resume bool

	// The last error of each kind, so that it is logged once.
	saidMutex sync.Mutex
	said      map[string]string
}

// Run holds the VIP by the rules until the context ends, and hands it over then. The signals are those that the
// process gets besides: SIGHUP reads the settings again, SIGUSR1 and SIGUSR2 are passed on to keepalived.
func Run(ctx context.Context, options Options, signals <-chan os.Signal, log *slog.Logger) error {
	g := &guard{
		options: options, log: log, facts: newFacts(), reaper: process.NewReaper(), signals: signals,
		reread: make(chan struct{}, 1), look: make(chan struct{}, 1), arrived: make(chan struct{}, 1),
		said: map[string]string{},
	}
	defer g.reaper.Close()
	var others sync.WaitGroup
	defer others.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	others.Go(func() { serve(ctx, options.Listen, g.facts, log) })
	if !g.firstSettings(ctx) {
		return nil
	}
	if err := g.prepare(); err != nil {
		return err
	}
	g.keeper = newSupervisor(g.reaper, options.Keepalived, inState(g.settings, "keepalived"), g.facts, log)
	g.keeper.resuming = g.resume
	others.Go(func() { g.dispatch(ctx) })
	// keepalived outlives the rounds that feed it: its last act needs nothing but itself.
	keeping, stopKeeping := context.WithCancel(context.WithoutCancel(ctx))
	kept := make(chan struct{})
	go func() {
		defer close(kept)
		g.keeper.run(keeping)
	}()
	for ctx.Err() == nil {
		g.generation(ctx)
	}
	stopKeeping()
	<-kept
	return g.leave()
}

// dispatch hands signals out.
func (g *guard) dispatch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case received := <-g.signals:
			number, ok := received.(syscall.Signal)
			switch {
			case !ok:
			case number == syscall.SIGHUP:
				notify(g.reread)
			default:
				g.keeper.Signal(number)
			}
		}
	}
}

// firstSettings waits for settings that can be used, since a node may get its files later than its pods. It returns
// whether there are some.
func (g *guard) firstSettings(ctx context.Context) bool {
	for ctx.Err() == nil {
		settings, err := g.load()
		g.facts.setUnusable(err)
		g.logOnce("settings", "Cannot use the settings", err)
		if err == nil {
			g.settings = settings
			return true
		}
		g.facts.setBeat(time.Now())
		pause(ctx, settingsInterval)
	}
	return false
}

// load reads the settings, with the interface that they let this node choose, and the peers that the Node adds.
func (g *guard) load() (vip.NodeSettings, error) {
	settings, err := loadSettings(g.options)
	if err == nil {
		settings, err = g.choose(settings)
	}
	text, _ := g.peers.Load().(string)
	if err != nil || settings.Mode != vip.Unicast {
		return settings, err
	}
	settings.Peers, err = withPeers(settings.Peers, text)
	g.logOnce("peers", "Cannot use the annotation "+vip.PeersAnnotation+" of the Node", err)
	return settings, nil
}

// prepare brings the node into the state in which it does not hold the address.
func (g *guard) prepare() error {
	g.log.Info("The guard starts", "node", g.options.Node, "role", g.settings.Role, "takeover", g.settings.Takeover,
		"interface", g.settings.Interface, "addresses", virtualAddresses(g.settings))
	start := time.Now()
	if seen, err := address.Observe(g.settings.Interface); err == nil && seen.Has(virtualAddresses(g.settings)) {
		// The lease of the VIP still runs: the guard before ended a moment ago, and without a word.
		record, _ := os.ReadFile(inState(g.settings, track.Term))
		g.book, g.resume = term.Resume(term.Parse(string(record)), start), true
		g.debounce.Resume(start)
		g.facts.setIronic(true, start)
	}
	if err := g.release(); err != nil {
		return err
	}
	if seen, err := address.Observe(g.settings.Interface); err == nil {
		// Before the first observation the node counts as deaf, which would end the term.
		g.facts.setSeen(seen, virtualAddresses(g.settings), start)
	}
	if _, err := os.Stat(g.silenceFile()); err == nil {
		// The management side was silent for long enough before the guard was started again.
		start = time.Time{}
	}
	g.ledger = advert.NewLedger(start)
	return nil
}

// leave tells the other pods of the node that the node does not hold the VIP.
func (g *guard) leave() error {
	err := errors.Join(g.release(), track.Replace(inState(g.settings, track.Term), []byte(term.Record{}.String())))
	g.log.Info("The guard ends", "error", err)
	return err
}

// release makes sure that the node does not hold the address, with no keepalived running.
func (g *guard) release() error {
	removed, err := address.Remove(g.settings.Interface, virtualAddresses(g.settings))
	if len(removed) > 0 {
		g.log.Warn("Removed VIPs that no keepalived manages", "addresses", removed)
	}
	for _, name := range []string{track.IronicOK, track.Armed, track.Holder} {
		err = errors.Join(err, track.Ensure(inState(g.settings, name), false))
	}
	return err
}

// generation works with one version of the settings, until there is another one that can be used.
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
	next := g.awaitSettings(ctx)
	cancel()
	rounds.Wait()
	g.forget(next)
	g.settings = next
}

// awaitSettings returns the new settings, or the old ones when the context ends.
func (g *guard) awaitSettings(ctx context.Context) vip.NodeSettings {
	known := fingerprint(g.options.Settings)
	for {
		select {
		case <-ctx.Done():
			return g.settings
		case <-g.reread:
			known = 0
		case <-time.After(settingsInterval):
		}
		found := fingerprint(g.options.Settings)
		if found == known {
			continue
		}
		settings, err := g.load()
		g.facts.valid.Set(asNumber(err == nil))
		g.logOnce("new settings", "Cannot use the new settings and goes on with the old ones", err)
		if err == nil {
			g.log.Info("The settings changed")
			return settings
		}
		// They may name an interface that comes later.
		known = 0
	}
}

// forget drops what was true with the old settings only.
func (g *guard) forget(next vip.NodeSettings) {
	old := g.settings
	if old.ClusterID != next.ClusterID || old.Ports != next.Ports || !slices.Equal(old.Images, next.Images) {
		g.debounce.Reset()
	}
	if old.ArmedAnnotation != next.ArmedAnnotation || old.Files.Kubeconfig != next.Files.Kubeconfig {
		g.facts.setAnnotation("")
	}
	if old.Files.State != next.Files.State {
		for _, name := range []string{track.IronicOK, track.Armed, track.Holder} {
			_ = track.Ensure(inState(old, name), false)
		}
	}
}

func inState(settings vip.NodeSettings, name string) string {
	return filepath.Join(settings.Files.State, name)
}

func (g *guard) silenceFile() string {
	return inState(g.settings, "management-silent")
}

// isHandedOver says whether there is a file of the clusterID among those that are handed over; what is in it does not
// matter. A folder that cannot be read is none: the side that builds clusters must not lose them to a damaged disk.
func isHandedOver(settings vip.NodeSettings) bool {
	_, err := os.Stat(filepath.Join(inState(settings, track.HandedOver), settings.ClusterID))
	return settings.ClusterID != "" && err == nil
}

func (g *guard) overrideFile() string {
	return filepath.Join(filepath.Dir(g.options.Settings), track.Armed)
}

// observePolicy gathers what the policy is made of.
func (g *guard) observePolicy(settings vip.NodeSettings, current snapshot, now time.Time) policy.Observation {
	return policy.Observation{
		Role:         settings.Role,
		Takeover:     settings.Takeover,
		Override:     readOverride(g.overrideFile()),
		Annotation:   current.annotation,
		HandedOver:   isHandedOver(settings),
		Holding:      current.holding,
		Silence:      g.ledger.Silence(now),
		SilenceLimit: time.Duration(settings.TakeoverAfterSilence),
	}
}

// logOnce logs an error of a kind when it is another one than before, and that it is over when it is nil.
func (g *guard) logOnce(kind, message string, err error) {
	g.saidMutex.Lock()
	defer g.saidMutex.Unlock()
	before := g.said[kind]
	switch {
	case err == nil && before != "":
		delete(g.said, kind)
		g.log.Info("No longer: " + message)
	case err != nil && err.Error() != before:
		g.said[kind] = err.Error()
		g.log.Error(message, "error", err)
	}
}
