package keepalived_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
)

// TestTimers tests the rows of the table in the comment of Timers.
func TestTimers(t *testing.T) {
	t.Parallel()
	first, last := keepalived.Priority(keepalived.ControlPlane, 0), keepalived.Priority(keepalived.ControlPlane, 4)
	for name, test := range map[string]struct {
		reason          string
		interval, limit time.Duration
		adverts         int
		tolerated       time.Duration
		down, skew      [2]time.Duration
	}{
		"default": {
			"a takeover costs the database, so the standby waits", 300 * time.Millisecond, 4 * time.Second, 12, 3300 * time.Millisecond,
			[2]time.Duration{3782812500, 3876562500}, [2]time.Duration{182812500, 276562500},
		},
		"half a second": {
			"fewer advertisements fit", 500 * time.Millisecond, 4 * time.Second, 7, 3 * time.Second,
			[2]time.Duration{3804687500, 3960937500}, [2]time.Duration{304687500, 460937500},
		},
		"one second": {
			"three advertisements fit", time.Second, 4 * time.Second, 3, 2 * time.Second,
			[2]time.Duration{3609375000, 3921875000}, [2]time.Duration{609375000, 921875000},
		},
		"two seconds": {
			"the limit is too short for three", 2 * time.Second, 4 * time.Second, 3, 4 * time.Second,
			[2]time.Duration{7218750000, 7843750000}, [2]time.Duration{1218750000, 1843750000},
		},
		"no limit": {
			"VRRP requires three", 200 * time.Millisecond, 0, 3, 400 * time.Millisecond,
			[2]time.Duration{721875000, 784375000}, [2]time.Duration{121875000, 184375000},
		},
		"shortest": {
			"keepalived accepts at most 100", 10 * time.Millisecond, 4 * time.Second, 100, 990 * time.Millisecond,
			[2]time.Duration{1006093750, 1009218750}, [2]time.Duration{6093750, 9218750},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			timers := keepalived.Timers{Interval: test.interval, Within: test.limit}
			if timers.Adverts() != test.adverts || timers.Tolerated() != test.tolerated {
				t.Errorf("%s: %d advertisements, %s tolerated; want %d, %s",
					test.reason, timers.Adverts(), timers.Tolerated(), test.adverts, test.tolerated)
			}
			if got := [2]time.Duration{timers.DownTime(first), timers.DownTime(last)}; got != test.down {
				t.Errorf("%s: taken over after %v, want %v", test.reason, got, test.down)
			}
			if got := [2]time.Duration{timers.SkewTime(first), timers.SkewTime(last)}; got != test.skew {
				t.Errorf("%s: after a handover %v, want %v", test.reason, got, test.skew)
			}
		})
	}
}

// TestTimersOfGroups compares the documented times of each interval with each member that may be the next holder, in
// groups of one to eight nodes with and without a management side.
func TestTimersOfGroups(t *testing.T) {
	t.Parallel()
	for interval := 10 * time.Millisecond; interval <= 40*time.Second; interval += 10 * time.Millisecond {
		timers := keepalived.Timers{Interval: interval, Within: keepalived.DefaultTakeoverWithin}
		for nodes := 1; nodes <= 8; nodes++ {
			members := map[string]int{
				"management":              keepalived.Priority(keepalived.Management, 0),
				"management, handed over": keepalived.Priority(keepalived.HandedOver, 0),
			}
			for ordinal := range nodes {
				members[fmt.Sprintf("node %d", ordinal)] = keepalived.Priority(keepalived.ControlPlane, ordinal)
			}
			for name, priority := range members {
				down := timers.DownTime(priority)
				if longest := max(keepalived.DefaultTakeoverWithin, 4*interval); down > longest {
					t.Errorf("%s, %d nodes: %s takes over after %s, more than %s", interval, nodes, name, down, longest)
				}
				// The last advertisement was sent at most an interval before the silence began.
				if earliest := down - interval; earliest <= timers.Tolerated() {
					t.Errorf("%s, %d nodes: %s takes over after a silence of %s, and %s are tolerated",
						interval, nodes, name, earliest, timers.Tolerated())
				}
			}
		}
	}
	standard := keepalived.Timers{Interval: keepalived.DefaultAdvertisementInterval, Within: keepalived.DefaultTakeoverWithin}
	if standard.Tolerated() < 3*time.Second {
		t.Errorf("by default a silence of %s is tolerated, want 3s", standard.Tolerated())
	}
	for ordinal := range 8 {
		priority := keepalived.Priority(keepalived.ControlPlane, ordinal)
		if skew := standard.SkewTime(priority); skew > 300*time.Millisecond {
			t.Errorf("rank %d takes the VIPs %s after a handover, want at most 300ms", ordinal, skew)
		}
	}
}
