package guard

import (
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/health"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

// TestLease compares the lease of the VIP with the time that the other nodes tolerate, and with their takeover.
func TestLease(t *testing.T) {
	for name, timers := range map[string]keepalived.Timers{
		"default":       {Interval: keepalived.DefaultAdvertisementInterval, Within: keepalived.DefaultTakeoverWithin},
		"half a second": {Interval: 500 * time.Millisecond, Within: keepalived.DefaultTakeoverWithin},
		"one second":    {Interval: time.Second, Within: keepalived.DefaultTakeoverWithin},
		"no limit":      {Interval: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			lease := leaseValidity(timers)
			if shortest := lease - leaseInterval(timers); shortest < timers.Tolerated() {
				t.Errorf("a stall of %s may cost the VIP, but the peers tolerate %s", shortest, timers.Tolerated())
			}
			for _, priority := range keepalived.Priorities() {
				// The last advertisement was sent at most an interval before the guard died.
				if shared := lease - (timers.DownTime(priority) - timers.Interval); shared >= time.Second {
					t.Errorf("a node of priority %d has the VIP %s before the lease of %s ends", priority, shared, lease)
				}
			}
		})
	}
}

// TestLeaseInterval requires that two renewals may fail before the lease counts as renewed too late.
func TestLeaseInterval(t *testing.T) {
	for _, timers := range []keepalived.Timers{
		{Interval: keepalived.DefaultAdvertisementInterval, Within: keepalived.DefaultTakeoverWithin},
		{Interval: 100 * time.Millisecond},
	} {
		if interval := leaseInterval(timers); 3*interval > timers.Tolerated() {
			t.Errorf("%+v: renewed after %s, and too late after %s", timers, interval, timers.Tolerated())
		}
	}
}

// TestLinked changes the carrier of an interface. A switch port may forward packets later than it has a carrier.
func TestLinked(t *testing.T) {
	timers := keepalived.Timers{Interval: time.Second}
	begin := time.Unix(1000, 0)
	virtual := []netip.Addr{netip.MustParseAddr("172.22.0.2")}
	at := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	up, down := address.Interface{Index: 1, Up: true}, address.Interface{Index: 1}
	holder := up
	holder.Addresses = []netip.Prefix{netip.MustParsePrefix("172.22.0.2/24")}
	pulled := holder
	pulled.Up = false
	const patience = int(forwardPatience / time.Second)
	for name, test := range map[string]struct {
		reason string
		// seen is one observation each second.
		seen       []address.Interface
		heard, now int
		want       bool
	}{
		"from the start":   {"the guard restarts", []address.Interface{up}, -1, 0, true},
		"no interface":     {"the guard waits", []address.Interface{{}}, -1, 0, false},
		"appears":          {"an interface without an observed loss of its carrier", []address.Interface{{}, down, up}, -1, 2, true},
		"appears again":    {"another interface of the same name", []address.Interface{up, {}, down, up}, -1, 3, true},
		"down":             {"the cable is unplugged", []address.Interface{up, down}, 0, 1, false},
		"up again":         {"the port may not forward packets", []address.Interface{up, down, up}, 0, 2, false},
		"up again, silent": {"there is no holder", []address.Interface{up, down, up}, 0, 1 + patience, false},
		"up for long":      {"the port forwards packets", []address.Interface{up, down, up}, 0, 2 + patience, true},
		"up and heard":     {"the port forwards packets", []address.Interface{up, down, up}, 3, 3, true},
		"holder, down":     {"other nodes do not miss it yet", []address.Interface{holder, pulled}, -1, 2, true},
		"holder, missed":   {"another node takes the VIP", []address.Interface{holder, pulled}, -1, 3, false},
		"holder, up again": {"the VIP stayed", []address.Interface{holder, pulled, holder}, -1, 2, true},
		"up, VIP left":     {"the VIP may return", []address.Interface{holder, pulled, holder, up}, -1, 3, true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFacts()
			for i, seen := range test.seen {
				f.setSeen(seen, virtual, at(i))
			}
			if got := f.snapshot().linked(timers, at(test.heard), at(test.now)); got != test.want {
				t.Errorf("%s: got %v", test.reason, got)
			}
		})
	}
}

// TestMuteHolder removes the source of the advertisements of a holder, for a moment and then for long.
func TestMuteHolder(t *testing.T) {
	t.Parallel()
	timers := keepalived.Timers{Interval: time.Second}
	begin := time.Unix(1000, 0)
	virtual := netip.MustParseAddr("fd00:22::2")
	f := newFacts()
	f.setSeen(address.Interface{
		Index: 1, Up: true, Addresses: []netip.Prefix{netip.PrefixFrom(virtual, 128)},
	}, []netip.Addr{virtual}, begin)
	for i, test := range []struct {
		reason string
		mute   bool
		want   bool
	}{
		{"it advertises", false, true},
		{"the address was removed", true, true},
		{"other nodes do not miss it yet", true, true},
		{"it advertises again", false, true},
		{"the address was removed again", true, true},
		{"other nodes do not miss it yet either", true, true},
		{"another node takes the VIP", true, false},
	} {
		now := begin.Add(time.Duration(i) * time.Second)
		f.setRefusal(errors.New("no address"), test.mute, now)
		if got := f.snapshot().linked(timers, time.Time{}, now); got != test.want {
			t.Errorf("%s: got %v", test.reason, got)
		}
	}
	g := &guard{log: newLogger(slog.New(slog.DiscardHandler)), facts: f, ledger: advert.NewLedger(begin)}
	settings := vip.NodeSettings{AdvertisementInterval: vip.Duration(timers.Interval)}
	if err := g.checkOnce(t.Context(), settings); health.ReasonOf(err) != "NoAddress" {
		t.Errorf("a mute holder: got %v", err)
	}
}

// TestChecksStop stops the checks of Ironic.
func TestChecksStop(t *testing.T) {
	settings := vip.NodeSettings{
		Role: vip.Management, Standby: vip.Warm, AdvertisementInterval: vip.Duration(300 * time.Millisecond),
	}
	settings.Files.State = t.TempDir()
	began := time.Now()
	g := &guard{
		log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts(), keeper: &supervisor{}, ledger: advert.NewLedger(began),
	}
	g.facts.setSeen(address.Interface{Up: true}, nil, began)
	g.facts.setIronic(true, began)
	for _, test := range []struct {
		name  string
		after time.Duration
		fit   bool
	}{
		{"the last check is new", 0, true},
		{"the last check still counts", checkPatience - time.Nanosecond, true},
		{"the last check is too old", checkPatience, false},
		{"the last check is much too old", time.Hour, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			g.writeFiles(settings, began.Add(test.after))
			said, err := os.ReadFile(inState(settings, track.IronicOK))
			if err != nil || string(said) != track.Value(test.fit) {
				t.Errorf("%s says %q, %v; want %q", track.IronicOK, said, err, track.Value(test.fit))
			}
		})
	}
	g.facts.setIronic(true, began.Add(time.Hour))
	g.writeFiles(settings, began.Add(time.Hour))
	if said, err := os.ReadFile(inState(settings, track.IronicOK)); err != nil || string(said) != track.Value(true) {
		t.Errorf("after another check %s is %q, %v", track.IronicOK, said, err)
	}
}

// TestWebServerMetric checks Ironic and its web server in turn. A check that Ironic fails does not show its web server.
func TestWebServerMetric(t *testing.T) {
	t.Parallel()
	g := &guard{log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts()}
	for _, test := range []struct {
		reason string
		err    error
		want   string
	}{
		{"no check has shown the web server", &health.Failure{Reason: "Refused", Cause: errors.New("no"), Part: health.Ironic}, "1"},
		{"the web server failed", &health.Failure{Reason: "Refused", Cause: errors.New("no"), Part: health.WebServer}, "0"},
		{"it failed before", &health.Failure{Reason: "Slow", Cause: errors.New("no"), Part: health.Ironic}, "0"},
		{"a slow Ironic does not show it", &health.Failure{Reason: "Slow", Cause: errors.New("no"), Part: health.Node}, "0"},
		{"it shows a certificate", &health.Failure{Reason: "CertificateExpired", Cause: errors.New("no"), Part: health.Files}, "1"},
		{"it breaks", &health.Failure{Reason: "Broken", Cause: errors.New("no"), Part: health.WebServer}, "0"},
		{"the web server answers", nil, "1"},
	} {
		g.reportWebServer(test.err)
		page := httptest.NewRecorder()
		handler(g.facts).ServeHTTP(page, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", http.NoBody))
		if !strings.Contains(page.Body.String(), "\nmetal3_guard_web_server_ok "+test.want+"\n") {
			t.Errorf("%s: want %s, got:\n%s", test.reason, test.want, page.Body)
		}
	}
}

// TestFailing counts only checks of Ironic. A node without a link checks nothing, which ends the count: otherwise the
// gate would kill an Ironic that was never checked.
func TestFailing(t *testing.T) {
	t.Parallel()
	f := newFacts()
	f.setFailing(true, 0)
	f.setFailing(true, 4*time.Second)
	if got := f.snapshot().failing; got != 5*time.Second {
		t.Errorf("after checks of one and of four seconds: got %s", got)
	}
	now := time.Now()
	g := &guard{log: newLogger(slog.New(slog.DiscardHandler)), facts: f, ledger: advert.NewLedger(now)}
	f.setSeen(address.Interface{}, nil, now)
	if err := g.checkOnce(t.Context(), vip.NodeSettings{}); health.ReasonOf(err) != "InterfaceDown" {
		t.Errorf("without a link: got %v", err)
	}
	if got := f.snapshot().failing; got != 0 {
		t.Errorf("after a check without a link: got %s", got)
	}
	f.setFailing(true, 0)
	f.setFailing(false, 0)
	if got := f.snapshot().failing; got != 0 {
		t.Errorf("after an answer: got %s", got)
	}
}
