package address_test

import (
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// TestWatcherFollowsLeases: a VIP whose lease is renewed too late counts as one that left and came back.
func TestWatcherFollowsLeases(t *testing.T) {
	virtual := addresses("172.22.0.2", "fd00:22::2")
	renewals := make(chan address.Interface, 64)
	handle, seen := watchAs(t, address.Watcher{
		Interface: "eth0", Virtual: virtual, Patience: func() time.Duration { return 500 * time.Millisecond },
		Renewed: func(now address.Interface) { renewals <- now },
	})
	next(t, seen, "at once")
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	first := next(t, seen, "an address")
	for range 4 {
		<-time.After(200 * time.Millisecond)
		replace(t, handle, "eth0", "172.22.0.2/24", 60)
		now := next(t, renewals, "more time")
		before, _ := first.Renewed(virtual)
		if stamp, found := now.Renewed(virtual); !found || stamp <= before || !now.Kept(first, virtual) {
			t.Errorf("renewed at %d, %t, after %d; added at %v, then %v", stamp, found, before, first.Added, now.Added)
		}
	}
	<-time.After(600 * time.Millisecond)
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	late := next(t, seen, "more time, too late")
	stamp, _ := late.Renewed(virtual)
	if late.Kept(first, virtual) || !late.HasSince(virtual, stamp) || late.HasSince(virtual, stamp-1) {
		t.Errorf("renewed too late at %d: added at %v, then %v", stamp, first.Added, late.Added)
	}
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	if now := next(t, renewals, "more time in time"); !now.Kept(late, virtual) || !now.HasSince(virtual, stamp+1) {
		t.Errorf("renewed in time: added at %v, then %v", late.Added, now.Added)
	}
	replace(t, handle, "eth1", "172.22.0.2/24", 60)
	replace(t, handle, "eth0", "172.22.0.3/24", 60)
	if now := next(t, seen, "another address"); !now.Kept(late, virtual) || len(now.Addresses) != 2 {
		t.Errorf("another address: added at %v, then %v", late.Added, now.Added)
	}
}

// TestClock tells the age of leases to a reader who hears of them late.
func TestClock(t *testing.T) {
	t.Parallel()
	const began = 1000 * time.Second
	type step struct {
		stamp uint32
		// after is when the reader hears of it, after the time itself as the clock of the reader has it.
		after, want time.Duration
	}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		reason string
		offset time.Duration
		steps  []step
	}{
		"at once":    {"the first time counts as heard at once", 3 * time.Second, []step{{100, 5 * ms, 0}}},
		"in a queue": {"what waited while the reader stood still is old", -time.Second, []step{{100, 0, 0}, {125, 5 * time.Second, 5*time.Second - ms}}},
		"late first": {"a shorter way shows that the first one was long", 0, []step{{100, 200 * ms, 0}, {125, ms, 0}, {150, 100 * ms, 98 * ms}}},
		"drift":      {"the clock of the reader gains a millisecond each time", 0, []step{{100, 0, 0}, {125, ms, 0}, {150, 2 * ms, 0}, {175, 3 * ms, 0}}},
		"wraps":      {"the kernel counts anew after 497 days", 0, []step{{4294967290, 0, 0}, {5, 42949673 * time.Second, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var clock address.Clock
			for i, step := range test.steps {
				now := began + test.offset + time.Duration(step.stamp)*10*ms + step.after
				if got := clock.Heard(step.stamp, now); got != step.want {
					t.Errorf("%s: time %d is %s old, want %s", test.reason, i, got, step.want)
				}
			}
		})
	}
}
