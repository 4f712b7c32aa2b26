package address_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

// TestExtend extends leases repeatedly and checks the lifetimes in the kernel.
func TestExtend(t *testing.T) {
	t.Parallel()
	var lines []string
	inNetwork(t, func(handle *netlink.Handle) error {
		if err := addAll(handle); err != nil {
			return err
		}
		link, err := handle.LinkByName("eth0")
		if err != nil {
			return err
		}
		// keepalived adds it like this, so that it does not become a source.
		kept, err := netlink.ParseAddr("fd00:22::5/128")
		if err != nil {
			return err
		}
		kept.ValidLft, kept.PreferedLft = 1000, 0
		failures := []error{handle.AddrAdd(link, kept)}
		wanted := addresses("172.22.0.2", "10.1.1.1", "fd00:22::3", "fd00:22::5", "172.22.0.99")
		for _, validity := range []time.Duration{100 * time.Second, 300 * time.Second} {
			failures = append(failures, address.Extend(link.Attrs().Index, wanted, validity))
		}
		entries, err := handle.AddrList(link, netlink.FAMILY_ALL)
		for _, entry := range entries {
			lines = append(lines, fmt.Sprint(entry.IPNet, " ", entry.Peer, " label ", entry.Label, " valid ", rounded(entry.ValidLft),
				" preferred ", rounded(entry.PreferedLft)))
		}
		return errors.Join(append(failures, err)...)
	})
	slices.Sort(lines)
	want := []string{
		"10.1.1.1/32 10.1.1.2/24 label eth0 valid 300 preferred 300",
		"172.22.0.2/24 <nil> label eth0 valid 300 preferred 300",
		"fd00:22::2/128 <nil> label  valid 4294967295 preferred 4294967295",
		"fd00:22::3/128 fd00:22::4/64 label  valid 300 preferred 300",
		"fd00:22::5/128 <nil> label  valid 300 preferred 0",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the interface has\n%q, want\n%q", lines, want)
	}
}

// rounded ignores one elapsed second.
func rounded(seconds int) int {
	if seconds%100 == 99 {
		return seconds + 1
	}
	return seconds
}

// TestExtendElsewhere extends leases of a deleted interface. No address may be added.
func TestExtendElsewhere(t *testing.T) {
	t.Parallel()
	for range 2 {
		if err := address.Extend(1<<30, addresses("172.22.0.2"), time.Second); err != nil {
			t.Error(err)
		}
	}
}

// TestExtendAddsNothing removes addresses during their renewal. A removed address must not return.
func TestExtendAddsNothing(t *testing.T) {
	t.Parallel()
	const tries = 200
	back := 0
	inNetwork(t, func(handle *netlink.Handle) error {
		link, err := handle.LinkByName("eth0")
		if err != nil {
			return err
		}
		for try := range tries {
			if back, err = raced(handle, link, time.Duration(2*try)*time.Microsecond, back); err != nil {
				return err
			}
		}
		return nil
	})
	if back > 0 {
		t.Errorf("in %d of %d tries a removed address was added again", back, tries)
	}
}

// raced adds addresses, removes them some time after their renewal begins, and counts those that exist afterwards.
func raced(handle *netlink.Handle, link netlink.Link, after time.Duration, back int) (int, error) {
	added := []string{"172.22.0.200/24", "fd00:22::200/64"}
	wanted := addresses("172.22.0.200", "fd00:22::200")
	for _, one := range added {
		parsed, err := netlink.ParseAddr(one)
		if err != nil {
			return back, err
		}
		parsed.Flags = unix.IFA_F_NODAD
		if err := handle.AddrAdd(link, parsed); err != nil {
			return back, err
		}
	}
	// The kernel counts in hundredths of a second and updates its clock every few milliseconds.
	<-time.After(25 * time.Millisecond)
	removed := make(chan error)
	go func() {
		for began := time.Now(); time.Since(began) < after; {
			runtime.Gosched()
		}
		var failures []error
		for _, one := range added {
			parsed, err := netlink.ParseAddr(one)
			failures = append(failures, err, handle.AddrDel(link, parsed))
		}
		removed <- errors.Join(failures...)
	}()
	err := errors.Join(address.Extend(link.Attrs().Index, wanted, time.Minute), <-removed)
	entries, listing := handle.AddrList(link, netlink.FAMILY_ALL)
	for _, entry := range entries {
		if slices.Contains(added, entry.IPNet.String()) {
			back++
			listing = errors.Join(listing, handle.AddrDel(link, &entry))
		}
	}
	return back, errors.Join(err, listing)
}
