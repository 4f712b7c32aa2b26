package address_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sync/errgroup"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// TestWatcherFollowsLeases renews the lease of a VIP too late. The VIP then counts as removed and added.
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
	var last uint32
	for range 4 {
		<-time.After(200 * time.Millisecond)
		replace(t, handle, "eth0", "172.22.0.2/24", 60)
		now := next(t, renewals, "more time")
		before, _ := first.Renewed(virtual)
		var found bool
		if last, found = now.Renewed(virtual); !found || last <= before || !now.Kept(first, virtual) {
			t.Errorf("renewed at %d, %t, after %d; added at %v, then %v", last, found, before, first.Added, now.Added)
		}
	}
	<-time.After(600 * time.Millisecond)
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	late := next(t, seen, "more time, too late")
	over := last + 50
	if late.Kept(first, virtual) || !late.HasSince(virtual, over) || late.HasSince(virtual, over-1) {
		t.Errorf("renewed in time until %d: added at %v, then %v", last, first.Added, late.Added)
	}
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	if now := next(t, renewals, "more time in time"); !now.Kept(late, virtual) || !now.HasSince(virtual, over) {
		t.Errorf("renewed in time: added at %v, then %v", late.Added, now.Added)
	}
	replace(t, handle, "eth1", "172.22.0.2/24", 60)
	replace(t, handle, "eth0", "172.22.0.3/24", 60)
	if now := next(t, seen, "another address"); !now.Kept(late, virtual) || len(now.Addresses) != 2 {
		t.Errorf("another address: added at %v, then %v", late.Added, now.Added)
	}
}

// TestWatcherIsStopped stops the watcher. It must judge renewals by the times of the kernel, not by the time of the
// read.
func TestWatcherIsStopped(t *testing.T) {
	t.Parallel()
	// The kernel counts in hundredths of a second.
	const patience, ticks = 600 * time.Millisecond, 60
	virtual := addresses("172.22.0.2")
	for name, test := range map[string]struct {
		reason string
		pauses []time.Duration
		inTime int
	}{
		"in time": {"no renewal was late", []time.Duration{200, 200, 200, 200, 200}, 5},
		"late":    {"one renewal was late, and the next ones follow at once", []time.Duration{200, 900, 30, 30}, 3},
	} {
		for _, isSlow := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, isSlow %t", name, isSlow), func(t *testing.T) {
				t.Parallel()
				var stands sync.Mutex
				observations, renewals := make(chan address.Interface, 64), make(chan address.Interface, 64)
				handle, seen := watchAs(t, address.Watcher{
					Interface: "eth0", Virtual: virtual, Patience: func() time.Duration { return patience },
					Changed: func(now address.Interface) {
						observations <- now
						stands.Lock()
						defer stands.Unlock()
					},
					Renewed: func(now address.Interface) { renewals <- now },
				})
				next(t, seen, "at once")
				replace(t, handle, "eth0", "172.22.0.2/24", 60)
				first := next(t, seen, "the VIP")
				if isSlow {
					stands.Lock()
				}
				replace(t, handle, "eth0", "172.22.0.3/24", 60)
				for now := first; len(now.Addresses) < 2; {
					now = next(t, observations, "another address")
				}
				// A stopped watcher reads this event before the renewals.
				replace(t, handle, "eth0", "172.22.0.4/24", 60)
				for _, pause := range test.pauses {
					<-time.After(pause * time.Millisecond)
					replace(t, handle, "eth0", "172.22.0.2/24", 60)
				}
				if isSlow {
					stands.Unlock()
				}
				last := next(t, renewals, "the first renewal")
				want := first.Stamp(virtual)
				if test.inTime < len(test.pauses) {
					renewed, _ := last.Renewed(virtual)
					want = renewed + ticks
				}
				for range test.inTime - 1 {
					last = next(t, renewals, "more time")
				}
				if got := last.Stamp(virtual); got != want {
					t.Errorf("%s: added at %d, counts as added at %d, want %d", test.reason, first.Stamp(virtual), got, want)
				}
			})
		}
	}
}

// TestWatcherAnew starts another Watcher. A VIP that counts as added again must still do so.
func TestWatcherAnew(t *testing.T) {
	t.Parallel()
	virtual := addresses("172.22.0.2")
	var first, late, anew address.Interface
	inNetwork(t, func(handle *netlink.Handle) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var renewals errgroup.Group
		watcher := address.Watcher{
			Interface: "eth0", Virtual: virtual, Patience: func() time.Duration { return 50 * time.Millisecond },
		}
		watcher.Changed = func(now address.Interface) {
			switch {
			case !now.HasAny(virtual):
				replace(t, handle, "eth0", "172.22.0.2/24", 60)
				return
			case !first.HasAny(virtual):
				first = now
			case !now.Kept(first, virtual):
				late = now
				cancel()
				return
			}
			renewals.Go(func() error {
				select {
				case <-time.After(100 * time.Millisecond):
					return add(handle, "eth0", "172.22.0.2/24", 60)
				case <-ctx.Done():
					return nil
				}
			})
		}
		if err := errors.Join(watcher.Run(ctx), renewals.Wait()); err != nil {
			return err
		}
		again, end := context.WithCancel(t.Context())
		defer end()
		watcher.Before, watcher.Changed = late, func(now address.Interface) {
			anew = now
			end()
		}
		return watcher.Run(again)
	})
	if !late.HasAny(virtual) || !anew.Kept(late, virtual) {
		t.Errorf("added at %v, then too late %v, and %v for the next watcher", first.Added, late.Added, anew.Added)
	}
}

// TestClock computes the age of leases for a reader that receives them late.
func TestClock(t *testing.T) {
	t.Parallel()
	const began = 1000 * time.Second
	type step struct {
		stamp uint32
		// after is the delay of the reader on its own clock.
		after, want time.Duration
	}
	const ms = time.Millisecond
	for name, test := range map[string]struct {
		reason string
		offset time.Duration
		steps  []step
	}{
		"at once":    {"the first time counts as received at once", 3 * time.Second, []step{{100, 5 * ms, 0}}},
		"in a queue": {"the delay of a stopped reader counts", -time.Second, []step{{100, 0, 0}, {125, 5 * time.Second, 5*time.Second - ms}}},
		"late first": {"a shorter delay shows that the first one was long", 0, []step{{100, 200 * ms, 0}, {125, ms, 0}, {150, 100 * ms, 98 * ms}}},
		"drift":      {"the clock of the reader gains a millisecond each time", 0, []step{{100, 0, 0}, {125, ms, 0}, {150, 2 * ms, 0}, {175, 3 * ms, 0}}},
		"wraps":      {"the counter wraps around after 497 days", 0, []step{{4294967290, 0, 0}, {5, 42949673 * time.Second, 0}}},
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
