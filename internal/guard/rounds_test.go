package guard

import (
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/advert"
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

// TestChecksStop stops the checks of Ironic.
func TestChecksStop(t *testing.T) {
	settings := vip.NodeSettings{
		Role: vip.Management, Standby: vip.Warm, AdvertisementInterval: vip.Duration(300 * time.Millisecond),
	}
	settings.Files.State = t.TempDir()
	began := time.Now()
	g := &guard{
		log: slog.New(slog.DiscardHandler), facts: newFacts(), keeper: &supervisor{}, ledger: advert.NewLedger(began),
		said: map[string]string{},
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
