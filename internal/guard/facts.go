package guard

import (
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/policy"
)

// facts are the shared state of the parts of the guard, and their metrics.
type facts struct {
	mutex sync.Mutex
	state snapshot

	registry    *prometheus.Registry
	holder      prometheus.Gauge
	transitions *prometheus.CounterVec
	well        prometheus.Gauge
	webServer   prometheus.Gauge
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
	registry := prometheus.NewRegistry()
	metrics := promauto.With(registry)
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return metrics.NewGaugeVec(prometheus.GaugeOpts{Name: metricPrefix + name, Help: help}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return metrics.NewCounterVec(prometheus.CounterOpts{Name: metricPrefix + name, Help: help}, labels)
	}
	f := &facts{
		registry:    registry,
		holder:      gauge("vip_holder", "1 while this node holds the VIP.").WithLabelValues(),
		transitions: counter("vip_transitions_total", "Arrivals and departures of the VIP.", "to"),
		well:        gauge("ironic_ok", "1 while the Ironic of this node is well.").WithLabelValues(),
		webServer:   gauge("web_server_ok", "1 if the web server answered when Ironic last did.").WithLabelValues(),
		armed:       gauge("armed", "1 while this node may hold the VIP, and why.", "reason"),
		latency: metrics.NewHistogram(prometheus.HistogramOpts{
			Name: metricPrefix + "probe_duration_seconds", Help: "How long the checks of Ironic take.",
			Buckets: []float64{.005, .02, .05, .1, .2, .4, .8},
		}),
		failures:   counter("probe_failures_total", "Failed checks of Ironic.", "reason"),
		peers:      gauge("peer_last_seen_timestamp_seconds", "When a peer last announced that it holds the VIP.", "peer"),
		foreign:    gauge("foreign_speaker", "1 for each VRRP speaker that collides with ours.", "source"),
		alive:      gauge("keepalived_running", "1 while keepalived runs.").WithLabelValues(),
		restarts:   counter("keepalived_deaths_total", "How often keepalived died by itself.").WithLabelValues(),
		reloads:    counter("keepalived_reloads_total", "How often keepalived got new settings.").WithLabelValues(),
		valid:      gauge("settings_valid", "0 while the settings cannot be used, or fit no interface.").WithLabelValues(),
		nodeErrors: counter("node_read_errors_total", "Failed reads of the Node object.").WithLabelValues(),
	}
	f.webServer.Set(1)
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
	s := &f.state
	s.enterCarrier(seen, now)
	if arrived = len(s.seen.Lost(seen, virtual)) > 0; arrived {
		s.arrivedAt = now
	}
	holding := seen.Has(virtual)
	if holding && s.holding && !seen.Kept(s.seen, virtual) {
		s.doubtedAt = now
	}
	s.seen = seen
	f.holder.Set(asNumber(holding))
	if holding == s.holding {
		return false, arrived
	}
	s.holding, s.holdingSince = holding, now
	direction := "backup"
	if holding {
		direction = "holder"
	}
	f.transitions.WithLabelValues(direction).Inc()
	return true, arrived
}

// setIronic returns the previous verdict.
func (f *facts) setIronic(well bool, now time.Time) (before bool) {
	f.well.Set(asNumber(well))
	f.update(func(s *snapshot) { before, s.ironicWell, s.checkedAt = s.ironicWell, well, now })
	return before
}

// setFailing counts the time of a check that Ironic failed. Without such a check, the count ends.
func (f *facts) setFailing(failing bool, took time.Duration) {
	f.update(func(s *snapshot) {
		if s.failing += max(took, health.Interval); !failing {
			s.failing = 0
		}
	})
}

// setRefusal stores why keepalived cannot be configured, and since when it sends no advertisements.
func (f *facts) setRefusal(refusal error, isMute bool, now time.Time) {
	f.update(func(s *snapshot) {
		s.refusal = refusal
		if !isMute {
			s.muteSince = time.Time{}
		} else if s.muteSince.IsZero() {
			s.muteSince = now
		}
	})
}

func (f *facts) setRunning(running bool) {
	f.alive.Set(asNumber(running))
	f.update(func(s *snapshot) { s.running = running })
}

func (f *facts) setVerdict(fit bool, decision policy.Decision, now time.Time) {
	f.update(func(s *snapshot) {
		s.fitAndArmed, s.beat = fit && decision.Armed, now
		if decision.Reason != s.reason {
			f.armed.Reset()
			s.reason = decision.Reason
		}
	})
	f.armed.WithLabelValues(decision.Reason).Set(asNumber(decision.Armed))
}

// update changes the state. The function must not block.
func (f *facts) update(change func(*snapshot)) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	change(&f.state)
}

func (f *facts) snapshot() snapshot {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return f.state
}

// snapshot is the state at one time.
type snapshot struct {
	seen         address.Interface
	holding      bool
	holdingSince time.Time
	arrivedAt    time.Time
	downSince    time.Time
	upSince      time.Time

	// doubtedAt is when the lease of the VIP was renewed too late, so that another holder may not have been heard yet.
	doubtedAt time.Time

	// muteSince is when the source of the advertisements was removed. Zero means that keepalived can send some.
	muteSince time.Time

	// wasUp is true if the interface has been up since it exists.
	wasUp bool

	// pending is true while Ironic is stopped, because the VIP left and may return in the same term.
	pending    bool
	ironicWell bool
	checkedAt  time.Time

	// failing is the time of the checks in a row that Ironic has failed.
	failing time.Duration

	annotation  policy.Answer
	running     bool
	fitAndArmed bool

	// reason is that of the last decision.
	reason string

	// beat is when the guard was last known to be alive.
	beat time.Time

	// unusable is why there are no first settings. Nil means that there are.
	unusable error

	// refusal is why keepalived cannot be configured on this node. Nil means that it can.
	refusal error
}

// enterCarrier records since when the interface has a carrier, or none.
func (s *snapshot) enterCarrier(seen address.Interface, now time.Time) {
	if !seen.Up && (s.seen.Up || s.downSince.IsZero()) {
		s.downSince = now
	}
	// The first carrier of an interface counts as an old one, and so does that of a holder: no advertisement confirms it.
	s.wasUp = s.wasUp && seen.Index == s.seen.Index
	if seen.Up && !s.seen.Up && s.wasUp && !s.holding && !s.pending {
		s.upSince = now
	}
	s.wasUp = s.wasUp || seen.Up
}

// forwardPatience is the maximum time from a carrier to the first packet: a switch port with the spanning tree protocol
// forwards no packets for 30 seconds. Meanwhile a node does not hear the VIP holder.
const forwardPatience = 35 * time.Second

// linked returns true if the VIP holder can send advertisements, or lost this ability so recently that no other node
// misses the holder. On another node it returns true if the interface forwards packets: an advertisement was heard
// since it is up, or forwardPatience has passed.
func (s snapshot) linked(timers keepalived.Timers, heard, now time.Time) bool {
	if s.holding || s.pending {
		last := now.Add(-timers.Tolerated())
		return (s.seen.Up || s.downSince.After(last)) && (s.muteSince.IsZero() || s.muteSince.After(last))
	}
	return s.seen.Up && (heard.After(s.upSince) || now.Sub(s.upSince) >= forwardPatience)
}
