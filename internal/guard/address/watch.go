package address

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// observeEvery is the interval of observations without a relevant event.
var observeEvery = unix.Timeval{Sec: 10}

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
	events, err := nl.Subscribe(unix.NETLINK_ROUTE, unix.RTNLGRP_LINK, unix.RTNLGRP_IPV4_IFADDR, unix.RTNLGRP_IPV6_IFADDR)
	if err != nil {
		return fmt.Errorf("subscribing to changes of addresses: %w", err)
	}
	defer events.Close()
	defer context.AfterFunc(ctx, events.Close)()
	if err := events.SetReceiveTimeout(&observeEvery); err != nil {
		return err
	}
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
		missed, err = await(events, func(event syscall.NetlinkMessage) bool {
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
	if event.Header.Type != unix.RTM_NEWADDR || int(nl.DeserializeIfAddrmsg(event.Data).Index) != seen.Index {
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
func await(events *nl.NetlinkSocket, enter func(syscall.NetlinkMessage) (isNews bool)) (missed bool, err error) {
	due := time.Now().Add(time.Duration(observeEvery.Nano()))
	for isOver := false; !isOver && time.Now().Before(due); {
		messages, sender, err := events.Receive()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return false, nil
		case errors.Is(err, unix.ENOBUFS):
			return true, nil
		case err != nil:
			return false, err
		case sender.Pid != nl.PidKernel:
			continue
		}
		for _, event := range messages {
			isOver = enter(event) || isOver
		}
	}
	return false, nil
}

// lacks returns true if the event changes the observation. An unreadable event counts as a change.
func (i Interface) lacks(event syscall.NetlinkMessage, name string) bool {
	switch event.Header.Type {
	case unix.RTM_NEWADDR, unix.RTM_DELADDR:
		return i.lacksAddress(event)
	case unix.RTM_NEWLINK, unix.RTM_DELLINK:
		return i.lacksLink(event.Data, name)
	default:
		return false
	}
}

func (i Interface) lacksAddress(event syscall.NetlinkMessage) bool {
	if len(event.Data) < unix.SizeofIfAddrmsg || i.Index == 0 {
		return true
	}
	if int(nl.DeserializeIfAddrmsg(event.Data).Index) != i.Index {
		return false
	}
	read, err := readEntry(event.Data)
	return err != nil || event.Header.Type == unix.RTM_DELADDR || !slices.Contains(i.Addresses, read.prefix) ||
		i.leases[read.prefix].created != read.times.Cstamp ||
		read.isUnusable() != slices.Contains(i.Unusable, read.prefix.Addr())
}

// lacksLink also checks other interfaces: another interface may get the name, or be a port of the bridge.
func (i Interface) lacksLink(message []byte, name string) bool {
	if len(message) < unix.SizeofIfInfomsg || i.Index == 0 {
		return true
	}
	link, err := netlink.LinkDeserialize(nil, message)
	if err != nil {
		return true
	}
	attributes := link.Attrs()
	return attributes.Index == i.Index || slices.Contains(i.uplinks, attributes.Index) ||
		attributes.MasterIndex == i.Index || attributes.Name == name
}
