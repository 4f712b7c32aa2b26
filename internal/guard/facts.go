package guard

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
)

// facts are the shared state of the parts of the guard, and their metrics.
type facts struct {
	mutex        sync.Mutex
	seen         address.Interface
	holding      bool
	holdingSince time.Time
	arrivedAt    time.Time
	doubtedAt    time.Time
	downSince    time.Time
	upSince      time.Time
	wasUp        bool
	pending      bool
	ironicWell   bool
	checkedAt    time.Time
	annotation   policy.Answer
	running      bool
	fitAndArmed  bool
	beat         time.Time
	reason       string
	unusable     error
	refusal      error

	registry    *prometheus.Registry
	holder      prometheus.Gauge
	transitions *prometheus.CounterVec
	well        prometheus.Gauge
	armed       *prometheus.GaugeVec
	latency     prometheus.Histogram
	failures    *prometheus.CounterVec
	peers       *prometheus.GaugeVec
	foreign     *prometheus.GaugeVec
	alive       prometheus.Gauge
	restarts    prometheus.Counter
	reloads     prometheus.Counter
	valid       prometheus.Gauge
	nodeErrors  prometheus.Counter
}

const metricPrefix = "metal3_guard_"

func newFacts() *facts {
	gauge := func(name, help string) prometheus.GaugeOpts {
		return prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}
	}
	counter := func(name, help string) prometheus.CounterOpts {
		return prometheus.CounterOpts{Name: metricPrefix + name, Help: help}
	}
	f := &facts{
		registry: prometheus.NewRegistry(),
		holder:   prometheus.NewGauge(gauge("vip_holder", "1 while this node holds the VIP.")),
		transitions: prometheus.NewCounterVec(
			counter("vip_transitions_total", "Arrivals and departures of the VIP."), []string{"to"}),
		well: prometheus.NewGauge(gauge("ironic_ok", "1 while the Ironic of this node is well.")),
		armed: prometheus.NewGaugeVec(
			gauge("armed", "1 while this node may hold the VIP, and why."), []string{"reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: metricPrefix + "probe_duration_seconds", Help: "How long the checks of Ironic take.",
			Buckets: []float64{.005, .02, .05, .1, .2, .4, .8},
		}),
		failures: prometheus.NewCounterVec(counter("probe_failures_total", "Failed checks of Ironic."), []string{"reason"}),
		peers: prometheus.NewGaugeVec(gauge("peer_last_seen_timestamp_seconds",
			"When a peer last announced that it holds the VIP."), []string{"peer"}),
		foreign: prometheus.NewGaugeVec(
			gauge("foreign_speaker", "1 for each VRRP speaker that collides with ours."), []string{"source"}),
		alive:      prometheus.NewGauge(gauge("keepalived_running", "1 while keepalived runs.")),
		restarts:   prometheus.NewCounter(counter("keepalived_deaths_total", "How often keepalived died by itself.")),
		reloads:    prometheus.NewCounter(counter("keepalived_reloads_total", "How often keepalived got new settings.")),
		valid:      prometheus.NewGauge(gauge("settings_valid", "0 while the settings cannot be used, or fit no interface.")),
		nodeErrors: prometheus.NewCounter(counter("node_read_errors_total", "Failed reads of the Node object.")),
	}
	f.registry.MustRegister(f.holder, f.transitions, f.well, f.armed, f.latency, f.failures, f.peers, f.foreign,
		f.alive, f.restarts, f.reloads, f.valid, f.nodeErrors)
	return f
}

func asNumber(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// setSeen stores an observation of the interface. It returns whether the node now holds or no longer holds all VIPs,
// and whether one of them has arrived.
func (f *facts) setSeen(seen address.Interface, virtual []netip.Addr, now time.Time) (changed, arrived bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !seen.Up && (f.seen.Up || f.downSince.IsZero()) {
		f.downSince = now
	}
	// The first carrier of an interface counts as an old one, and so does that of a holder: no advertisement confirms it.
	f.wasUp = f.wasUp && seen.Index == f.seen.Index
	if seen.Up && !f.seen.Up && f.wasUp && !f.holding && !f.pending {
		f.upSince = now
	}
	f.wasUp = f.wasUp || seen.Up
	arrived = slices.ContainsFunc(virtual, func(one netip.Addr) bool {
		only := []netip.Addr{one}
		return seen.Has(only) && !f.seen.Has(only)
	})
	if arrived {
		f.arrivedAt = now
	}
	holding := seen.Has(virtual)
	if holding && f.holding && !seen.Kept(f.seen, virtual) {
		f.doubtedAt = now
	}
	f.seen = seen
	f.holder.Set(asNumber(holding))
	if holding == f.holding {
		return false, arrived
	}
	f.holding, f.holdingSince = holding, now
	direction := "backup"
	if holding {
		direction = "holder"
	}
	f.transitions.WithLabelValues(direction).Inc()
	return true, arrived
}

// setRenewed stores an observation after the renewal of an address without another change.
func (f *facts) setRenewed(seen address.Interface) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.seen = seen
}

// setIronic returns the previous verdict.
func (f *facts) setIronic(well bool, now time.Time) bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	before := f.ironicWell
	f.ironicWell, f.checkedAt = well, now
	f.well.Set(asNumber(well))
	return before
}

// setChecked keeps the verdict valid without a check.
func (f *facts) setChecked(now time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.checkedAt = now
}

func (f *facts) setAnnotation(answer policy.Answer) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.annotation = answer
}

// setPending records whether Ironic is stopped, because the VIP left and may return in the same term.
func (f *facts) setPending(pending bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.pending = pending
}

func (f *facts) setRunning(running bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.running = running
	f.alive.Set(asNumber(running))
}

func (f *facts) setVerdict(fit bool, decision policy.Decision, now time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.fitAndArmed = fit && decision.Armed
	f.beat = now
	if decision.Reason != f.reason {
		f.armed.Reset()
		f.reason = decision.Reason
	}
	f.armed.WithLabelValues(decision.Reason).Set(asNumber(decision.Armed))
}

// setUnusable stores the error of the first settings. Nil means that they are valid.
func (f *facts) setUnusable(problem error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.unusable = problem
	f.valid.Set(asNumber(problem == nil))
}

// setRefusal stores why keepalived cannot be configured on this node. Nil means that it can.
func (f *facts) setRefusal(reason error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.refusal = reason
}

// setBeat records that the guard is alive before it has decided anything.
func (f *facts) setBeat(now time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.beat = now
}

type snapshot struct {
	seen         address.Interface
	holding      bool
	holdingSince time.Time
	arrivedAt    time.Time
	doubtedAt    time.Time
	downSince    time.Time
	upSince      time.Time
	pending      bool
	ironicWell   bool
	checkedAt    time.Time
	annotation   policy.Answer
	running      bool
	fitAndArmed  bool
	beat         time.Time
	unusable     error
	refusal      error
}

// doubts returns true if the lease of the VIP was renewed so late and so recently that another holder may not have
// been heard yet. A holder advertises once in an interval.
func (s snapshot) doubts(interval time.Duration, now time.Time) bool {
	return now.Sub(s.doubtedAt) < 2*interval
}

// forwardPatience is the maximum time from a carrier to the first packet: a switch port with the spanning tree protocol
// forwards no packets for 30 seconds. Meanwhile a node does not hear the VIP holder.
const forwardPatience = 35 * time.Second

// linked returns true if the interface of the VIP holder is up, or has been down for less than the time in which other
// nodes miss the holder. On another node it returns true if the interface forwards packets: an advertisement was heard
// since it is up, or forwardPatience has passed.
func (s snapshot) linked(timers keepalived.Timers, heard, now time.Time) bool {
	if s.holding || s.pending {
		return s.seen.Up || now.Sub(s.downSince) < timers.Tolerated()
	}
	return s.seen.Up && (heard.After(s.upSince) || now.Sub(s.upSince) >= forwardPatience)
}

func (f *facts) snapshot() snapshot {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return snapshot{
		seen: f.seen, holding: f.holding, holdingSince: f.holdingSince, arrivedAt: f.arrivedAt,
		doubtedAt: f.doubtedAt, downSince: f.downSince, upSince: f.upSince, pending: f.pending,
		ironicWell: f.ironicWell, checkedAt: f.checkedAt, annotation: f.annotation, running: f.running,
		fitAndArmed: f.fitAndArmed, beat: f.beat, unusable: f.unusable, refusal: f.refusal,
	}
}
