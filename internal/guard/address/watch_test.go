package address_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// TestWatch changes an interface and its surroundings, on a thread with a network of its own.
func TestWatch(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make a network namespace")
	}
	seen := make(chan address.Interface, 16)
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
			return address.Watch(ctx, "eth0", func(now address.Interface) { seen <- now })
		})
	}()
	handle := <-ready
	if handle == nil {
		t.Skipf("cannot make a network: %v", <-ended)
	}
	defer handle.Close()
	next := func(what string) address.Interface {
		t.Helper()
		select {
		case now := <-seen:
			return now
		case <-time.After(5 * time.Second):
			t.Fatalf("%s: nothing was noticed", what)
			return address.Interface{}
		}
	}
	next("at once")
	change := func(device, text string, lifetime int) {
		t.Helper()
		link, err := handle.LinkByName(device)
		if err != nil {
			t.Fatal(err)
		}
		entry, err := netlink.ParseAddr(text)
		if err != nil {
			t.Fatal(err)
		}
		entry.ValidLft, entry.PreferedLft = lifetime, lifetime
		if err := handle.AddrReplace(link, entry); err != nil {
			t.Fatal(err)
		}
	}
	change("eth0", "172.22.0.2/24", 60)
	if now := next("an address"); fmt.Sprint(now.Addresses) != "[172.22.0.2/24]" {
		t.Errorf("the interface has %v", now.Addresses)
	}
	change("eth0", "172.22.0.2/24", 120)
	change("eth1", "10.0.0.1/8", 60)
	change("eth0", "172.22.0.3/24", 60)
	if now := next("a second address"); len(now.Addresses) != 2 {
		t.Errorf("more time, or another interface, counts as a change: %v", now.Addresses)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// newNetwork gives the thread two interfaces that are down, so that the kernel adds no address of its own.
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
