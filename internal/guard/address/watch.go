package address

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
)

// observeEvery is the interval of observations without an event.
const observeEvery = 10 * time.Second

// Groups of events, from rtnetlink.h of the kernel.
const (
	linkGroup     = 1
	address4Group = 5
	address6Group = 9
)

// Watcher watches an interface and its VIPs.
type Watcher struct {
	// Interface is the name of the interface.
	Interface string

	// Virtual are the addresses with a lease.
	Virtual []netip.Addr

	// Patience returns the maximum time between renewals of the lease of the VIPs. A VIP that is renewed later counts
	// as removed and added again. Nil and zero mean no limit.
	Patience func() time.Duration

	// Before is the last observation, perhaps of another Watcher. It is empty if there was none.
	Before Interface

	// Gap is true if renewals since Before were not observed. They do not count as late.
	Gap bool

	// Changed receives the first observation and one after each change of the interface or its addresses. It does not
	// receive renewals and changes of other interfaces, which are frequent.
	Changed func(Interface)

	// Renewed receives an observation after each renewal of an address. Optional.
	Renewed func(Interface)
}

// Run blocks until the context ends. It calls one function at a time. It judges a renewal by the time of the kernel,
// so it misses none while the process is stopped. If the kernel dropped events, the missing renewals count as late.
func (w Watcher) Run(ctx context.Context) error {
	events, err := dial(linkGroup, address4Group, address6Group)
	if err != nil {
		return err
	}
	defer events.close()
	defer context.AfterFunc(ctx, events.close)()
	before, missed := w.Before, true
	for ctx.Err() == nil {
		// The socket queues all events from here on.
		seen, err := Observe(w.Interface)
		if err != nil {
			return err
		}
		if !missed {
			seen = seen.withLeases(before)
		}
		seen = seen.following(before, w.Virtual, w.patience())
		w.Gap = false
		w.Changed(seen)
		missed, err = events.await(func(event syscall.NetlinkMessage) bool {
			if seen.lacks(event, w.Interface) {
				return true
			}
			next, isRenewal := w.renewed(seen, event)
			if !isRenewal {
				return false
			}
			isLate := !maps.Equal(next.Added, seen.Added)
			if seen = next; !isLate && w.Renewed != nil {
				w.Renewed(seen)
			}
			return isLate
		})
		if err != nil && ctx.Err() == nil {
			return fmt.Errorf("waiting for changes of addresses: %w", err)
		}
		before = seen
	}
	return nil
}

func (w Watcher) patience() time.Duration {
	if w.Patience == nil || w.Gap {
		return 0
	}
	return w.Patience()
}

// renewed returns the observation after an event, and true if the event renews a VIP.
func (w Watcher) renewed(seen Interface, event syscall.NetlinkMessage) (Interface, bool) {
	if event.Header.Type != syscall.RTM_NEWADDR || int(nl.DeserializeIfAddrmsg(event.Data).Index) != seen.Index {
		return seen, false
	}
	// An unreadable event counts as a change.
	renewed, err := readEntry(event.Data)
	if err != nil || !slices.Contains(w.Virtual, renewed.prefix.Addr()) {
		return seen, false
	}
	return seen.renewing(renewed).following(seen, w.Virtual, w.patience()), true
}

// await returns after a relevant event or after observeEvery. It returns true if the kernel dropped events for a slow
// reader.
func (k *kernel) await(enter func(syscall.NetlinkMessage) (isNews bool)) (missed bool, err error) {
	if err := k.file.SetReadDeadline(time.Now().Add(observeEvery)); err != nil {
		return false, err
	}
	for isOver := false; !isOver; {
		events, err := k.receive()
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return false, nil
		case errors.Is(err, syscall.ENOBUFS):
			return true, nil
		case err != nil:
			return false, err
		}
		for _, event := range events {
			isOver = enter(event) || isOver
		}
	}
	return false, nil
}

// lacks returns true if the event changes the observation. An unreadable event counts as a change.
func (i Interface) lacks(event syscall.NetlinkMessage, name string) bool {
	switch event.Header.Type {
	case syscall.RTM_NEWADDR, syscall.RTM_DELADDR:
		return i.lacksAddress(event)
	case syscall.RTM_NEWLINK, syscall.RTM_DELLINK:
		return i.lacksLink(event.Data, name)
	default:
		return false
	}
}

func (i Interface) lacksAddress(event syscall.NetlinkMessage) bool {
	if len(event.Data) < syscall.SizeofIfAddrmsg || i.Index == 0 {
		return true
	}
	if int(nl.DeserializeIfAddrmsg(event.Data).Index) != i.Index {
		return false
	}
	read, err := readEntry(event.Data)
	return err != nil || event.Header.Type == syscall.RTM_DELADDR || !slices.Contains(i.Addresses, read.prefix) ||
		i.leases[read.prefix].created != read.added || read.isUnusable() != slices.Contains(i.Unusable, read.prefix.Addr())
}

// lacksLink also checks other interfaces: another interface may get the name, or be a port of the bridge.
func (i Interface) lacksLink(message []byte, name string) bool {
	if len(message) < syscall.SizeofIfInfomsg || i.Index == 0 {
		return true
	}
	header := nl.DeserializeIfInfomsg(message)
	if int(header.Index) == i.Index || slices.Contains(i.uplinks, int(header.Index)) {
		return true
	}
	attributes, err := nl.ParseRouteAttrAsMap(message[header.Len():])
	master := attributes[syscall.IFLA_MASTER].Value
	return err != nil || len(master) == 4 && int(binary.NativeEndian.Uint32(master)) == i.Index ||
		strings.TrimRight(string(attributes[syscall.IFLA_IFNAME].Value), "\x00") == name
}
