package address_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// TestWatch changes an interface and others in a network namespace of its own.
func TestWatch(t *testing.T) {
	handle, seen := watch(t, "eth0")
	next(t, seen, "at once")
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	first := next(t, seen, "an address")
	if fmt.Sprint(first.Addresses) != "[172.22.0.2/24]" {
		t.Errorf("the interface has %v", first.Addresses)
	}
	// The kernel counts in hundredths of a second.
	<-time.After(20 * time.Millisecond)
	replace(t, handle, "eth0", "172.22.0.2/24", 120)
	replace(t, handle, "eth1", "10.0.0.1/8", 60)
	replace(t, handle, "eth0", "172.22.0.3/24", 60)
	second := next(t, seen, "a second address")
	if len(second.Addresses) != 2 {
		t.Errorf("a renewal or another interface counts as a change: %v", second.Addresses)
	}
	virtual := addresses("172.22.0.2")
	if !second.Kept(first, virtual) {
		t.Errorf("a renewed address counts as removed: added at %v, then %v", first.Added, second.Added)
	}
	remove(t, handle, "172.22.0.2/24")
	replace(t, handle, "eth0", "172.22.0.2/24", 60)
	last := next(t, seen, "an address was removed and added")
	for !last.HasAny(virtual) {
		last = next(t, seen, "an address was added")
	}
	if last.Kept(second, virtual) {
		t.Errorf("a removed address counts as kept: added at %v, then %v", second.Added, last.Added)
	}
}

// watch watches an interface in a network namespace of its own, until the test ends.
func watch(t *testing.T, name string) (*netlink.Handle, <-chan address.Interface) {
	t.Helper()
	return watchAs(t, address.Watcher{Interface: name})
}

// watchAs runs a watcher in a network namespace of its own, until the test ends.
func watchAs(t *testing.T, watcher address.Watcher) (*netlink.Handle, <-chan address.Interface) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to create a network namespace")
	}
	seen := make(chan address.Interface, 64)
	ctx, cancel := context.WithCancel(t.Context())
	ready := make(chan *netlink.Handle)
	ended := make(chan error, 1)
	go func() {
		ended <- thread.Own(func() error {
			handle, err := newNetwork()
			ready <- handle
			if err != nil {
				return err
			}
			changed := watcher.Changed
			watcher.Changed = func(now address.Interface) {
				if changed != nil {
					changed(now)
				}
				seen <- now
			}
			return watcher.Run(ctx)
		})
	}()
	handle := <-ready
	if handle == nil {
		cancel()
		t.Skipf("creating a network: %v", <-ended)
	}
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		handle.Close()
	})
	return handle, seen
}

// next waits for an observation.
func next(t *testing.T, seen <-chan address.Interface, what string) address.Interface {
	t.Helper()
	select {
	case now := <-seen:
		return now
	case <-time.After(time.Minute):
		t.Fatalf("%s: got no observation", what)
		return address.Interface{}
	}
}

// replace adds an address to an interface, or renews it.
func replace(t *testing.T, handle *netlink.Handle, device, text string, lifetime int) {
	t.Helper()
	if err := add(handle, device, text, lifetime); err != nil {
		t.Fatal(err)
	}
}

func add(handle *netlink.Handle, device, text string, lifetime int) error {
	link, err := handle.LinkByName(device)
	if err != nil {
		return err
	}
	entry, err := netlink.ParseAddr(text)
	if err != nil {
		return err
	}
	entry.ValidLft, entry.PreferedLft = lifetime, lifetime
	return handle.AddrReplace(link, entry)
}

// TestObserve reads the addresses that the netlink library has added.
func TestObserve(t *testing.T) {
	t.Parallel()
	var seen, other, none address.Interface
	inNetwork(t, func(handle *netlink.Handle) error {
		var failures [3]error
		err := addAll(handle)
		seen, failures[0] = address.Observe("eth0")
		other, failures[1] = address.Observe("eth1")
		none, failures[2] = address.Observe("eth2")
		return errors.Join(append(failures[:], err)...)
	})
	slices.SortFunc(seen.Addresses, netip.Prefix.Compare)
	if got := fmt.Sprint(seen.Addresses); got != "[10.1.1.1/32 172.22.0.2/24 fd00:22::2/128 fd00:22::3/128]" {
		t.Errorf("the interface has %s", got)
	}
	if len(seen.Added) != len(seen.Addresses) || seen.Index == 0 || seen.Up {
		t.Errorf("the interface is %+v", seen)
	}
	if other.Index == 0 || len(other.Addresses) > 0 || none.Index != 0 {
		t.Errorf("other interfaces are %+v and %+v", other, none)
	}
}

// TestChurn adds and removes addresses of other interfaces, as kube-ipvs0 does. They must not interrupt a list.
func TestChurn(t *testing.T) {
	t.Parallel()
	inNetwork(t, func(handle *netlink.Handle) error {
		busy, err := handle.LinkByName("eth1")
		if err := errors.Join(err, addAll(handle)); err != nil {
			return err
		}
		service := func(number int) *netlink.Addr {
			network := &net.IPNet{IP: net.IPv4(10, 96, byte(number>>8), byte(number)), Mask: net.CIDRMask(32, 32)}
			return &netlink.Addr{IPNet: network}
		}
		for number := range 3000 {
			if err := handle.AddrAdd(busy, service(number)); err != nil {
				return err
			}
		}
		stop, stopped := make(chan struct{}), make(chan error, 1)
		go func() {
			var failures []error
			for number := 0; len(failures) == 0; number = (number + 1) % 3000 {
				select {
				case <-stop:
					stopped <- nil
					return
				default:
				}
				err := errors.Join(handle.AddrDel(busy, service(number)), handle.AddrAdd(busy, service(number)))
				if err != nil {
					failures = append(failures, err)
				}
			}
			stopped <- errors.Join(failures...)
		}()
		err = observeDuringChurn()
		close(stop)
		return errors.Join(err, <-stopped)
	})
}

// observeDuringChurn repeatedly observes eth0 and extends its leases.
func observeDuringChurn() error {
	for range 100 {
		seen, err := address.Observe("eth0")
		if err == nil && len(seen.Addresses) != 4 {
			err = fmt.Errorf("eth0 has %v", seen.Addresses)
		}
		if err := errors.Join(err, address.Extend(seen.Index, addresses("172.22.0.2"), time.Minute)); err != nil {
			return err
		}
	}
	return nil
}

// TestWatchBridge watches a bridge, which is up while an uplink has a carrier. Other ports do not count.
func TestWatchBridge(t *testing.T) {
	t.Parallel()
	handle, seen := watch(t, "br0")
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0"}}
	guest := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "guest0"}, PeerName: "guest1"}
	uplink := &netlink.Ifb{LinkAttrs: netlink.LinkAttrs{Name: "uplink"}}
	err := errors.Join(handle.LinkAdd(bridge), handle.LinkAdd(guest), handle.LinkAdd(uplink))
	peer, missing := handle.LinkByName("guest1")
	if err := errors.Join(err, missing); err != nil {
		t.Fatal(err)
	}
	err = errors.Join(handle.LinkSetMaster(guest, bridge), handle.LinkSetUp(bridge), handle.LinkSetUp(guest),
		handle.LinkSetUp(peer))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		what   string
		change func() error
		up     bool
	}{
		{"a guest works", func() error { return nil }, true},
		{"an uplink that is down", func() error { return handle.LinkSetMaster(uplink, bridge) }, false},
		{"the uplink is up", func() error { return handle.LinkSetUp(uplink) }, true},
		{"the uplink is down", func() error { return handle.LinkSetDown(uplink) }, false},
		{"the uplink is removed from the bridge", func() error { return handle.LinkSetNoMaster(uplink) }, true},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		for now := next(t, seen, step.what); now.Up != step.up; {
			now = next(t, seen, step.what)
		}
	}
}

// addAll adds addresses of both families to eth0, with and without a peer address.
func addAll(handle *netlink.Handle) error {
	link, err := handle.LinkByName("eth0")
	if err != nil {
		return err
	}
	for own, peer := range map[string]string{
		"172.22.0.2/24": "", "10.1.1.1/32": "10.1.1.2/24", "fd00:22::2/128": "", "fd00:22::3/128": "fd00:22::4/64",
	} {
		entry, err := netlink.ParseAddr(own)
		if err == nil && peer != "" {
			entry.Peer, err = netlink.ParseIPNet(peer)
		}
		if err := errors.Join(err, handle.AddrAdd(link, entry)); err != nil {
			return err
		}
	}
	return nil
}

// remove removes an address from eth0.
func remove(t *testing.T, handle *netlink.Handle, text string) {
	t.Helper()
	link, err := handle.LinkByName("eth0")
	if err != nil {
		t.Fatal(err)
	}
	entry, err := netlink.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := handle.AddrDel(link, entry); err != nil {
		t.Fatal(err)
	}
}

// inNetwork runs work on a thread with the network of newNetwork. It skips the test if the network cannot be created.
func inNetwork(t *testing.T, work func(handle *netlink.Handle) error) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to create a network namespace")
	}
	made := false
	err := thread.Own(func() error {
		handle, err := newNetwork()
		if err != nil {
			return err
		}
		made = true
		defer handle.Close()
		return work(handle)
	})
	if !made {
		t.Skipf("creating a network: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// newNetwork creates two interfaces that are down, so that the kernel adds no link-local addresses.
func newNetwork() (*netlink.Handle, error) {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return nil, err
	}
	cable := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "eth0"}, PeerName: "eth1"}
	handle, err := netlink.NewHandle()
	if err == nil {
		err = handle.LinkAdd(cable)
	}
	if err != nil {
		return nil, errors.Join(errors.New("making a cable"), err)
	}
	return handle, nil
}
