package guard

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
)

// TestForeignSpeakerChanges has a foreign speaker that changes its priority. The metric stays until the speaker is
// gone.
func TestForeignSpeakerChanges(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	virtual := []netip.Addr{netip.MustParseAddr("172.22.0.2")}
	g := &guard{log: newLogger(slog.New(slog.DiscardHandler)), facts: newFacts(), ledger: advert.NewLedger(now)}
	for _, priority := range []uint8{5, 6, 7} {
		g.ledger.Record(now, advert.Group{RouterID: 51, Virtual: virtual}, netip.MustParseAddr("172.22.0.99"),
			advert.Advertisement{Version: 3, RouterID: 51, Priority: priority, Addresses: virtual, HopLimit: 255})
		g.reportSpeakers(now)
		if count := reported(t, g); count != 1 {
			t.Errorf("%d foreign speakers are reported at priority %d, want 1", count, priority)
		}
	}
	g.reportSpeakers(now.Add(time.Hour))
	if count := reported(t, g); count != 0 {
		t.Errorf("%d foreign speakers are reported after an hour of silence", count)
	}
}

// reported returns the number of foreign speakers in the metrics.
func reported(t *testing.T, g *guard) (count int) {
	t.Helper()
	families, err := g.facts.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() == metricPrefix+"foreign_speaker" {
			count += len(family.GetMetric())
		}
	}
	return count
}

// TestManyForeignSpeakers has more foreign speakers than one line of the log shows.
func TestManyForeignSpeakers(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	virtual := []netip.Addr{netip.MustParseAddr("172.22.0.2")}
	var said bytes.Buffer
	g := &guard{log: newLogger(slog.New(slog.NewTextHandler(&said, nil))), facts: newFacts(), ledger: advert.NewLedger(now)}
	source := netip.MustParseAddr("172.22.0.90")
	for range loggedSpeakers + 2 {
		source = source.Next()
		g.ledger.Record(now, advert.Group{RouterID: 51, Virtual: virtual}, source,
			advert.Advertisement{Version: 3, RouterID: 51, Priority: 5, Addresses: virtual, HopLimit: 255})
	}
	g.reportSpeakers(now)
	if count := reported(t, g); count != loggedSpeakers+2 {
		t.Errorf("%d foreign speakers are reported", count)
	}
	if log := said.String(); strings.Count(log, "172.22.0.9") != loggedSpeakers || !strings.Contains(log, "and 2 more") {
		t.Errorf("the log says %s", log)
	}
}
