// Package address reads and changes the addresses of the network interface that carries the Ironic address. It talks to
// the kernel through netlink and needs no other program; changing needs CAP_NET_ADMIN, reading needs nothing.
package address

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
)

// Interface is what was observed of a network interface.
type Interface struct {
	// Index of the interface; 0 means that there is none of that name.
	Index int

	// Up says that the interface is up and has a carrier.
	Up bool

	// Addresses of the interface, in the kernel's order.
	Addresses []netip.Prefix

	// Unusable are those of the addresses that cannot be a source: link-local, deprecated, or still being checked.
	Unusable []netip.Addr

	// Added is when each of the addresses was added, in hundredths of a second since the start of the machine. An
	// address that left and came back has another time than before, one that was given more time has not.
	Added map[netip.Prefix]uint32
}

// flags of an address that is no source.
const unusableFlags = ifaDeprecated | ifaTentative | ifaDADFailed

// Flags of addresses, from if_addr.h of the kernel.
const (
	ifaDADFailed  = 0x08
	ifaDeprecated = 0x20
	ifaTentative  = 0x40
)

// Observe reads the interface. One that does not exist is an observation, not an error.
func Observe(name string) (Interface, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return Interface{}, nil
	}
	if err != nil {
		return Interface{}, fmt.Errorf("looking up interface %s: %w", name, err)
	}
	attributes := link.Attrs()
	observed := Interface{
		Index: attributes.Index,
		Up:    attributes.Flags&net.FlagUp != 0 && attributes.RawFlags&runningFlag != 0,
		Added: map[netip.Prefix]uint32{},
	}
	connection, err := dial()
	if err != nil {
		return Interface{}, err
	}
	defer connection.close()
	entries, err := connection.list(attributes.Index)
	if err != nil {
		return Interface{}, fmt.Errorf("listing the addresses of %s: %w", name, err)
	}
	for _, entry := range entries {
		observed.Addresses = append(observed.Addresses, entry.prefix)
		observed.Added[entry.prefix] = entry.added
		if entry.isUnusable() {
			observed.Unusable = append(observed.Unusable, entry.prefix.Addr())
		}
	}
	return observed, nil
}

// runningFlag is IFF_RUNNING: the interface has a carrier.
const runningFlag = 0x40

// Equal says whether nothing has changed, but for addresses that left and came back.
func (i Interface) Equal(other Interface) bool {
	return i.Index == other.Index && i.Up == other.Up && slices.Equal(i.Addresses, other.Addresses) &&
		slices.Equal(i.Unusable, other.Unusable)
}

// Has says whether the interface has all of the addresses.
func (i Interface) Has(addresses []netip.Addr) bool {
	for _, wanted := range addresses {
		if !slices.ContainsFunc(i.Addresses, func(prefix netip.Prefix) bool { return prefix.Addr() == wanted }) {
			return false
		}
	}
	return len(addresses) > 0
}

// HasAny says whether the interface has one of the addresses.
func (i Interface) HasAny(addresses []netip.Addr) bool {
	return slices.ContainsFunc(i.Addresses, func(prefix netip.Prefix) bool {
		return slices.Contains(addresses, prefix.Addr())
	})
}

// Kept says whether one of the addresses has been on the interface all the time since an earlier observation. Whoever
// has lost them all in between has lost them, even if they are back before anybody looks.
func (i Interface) Kept(earlier Interface, addresses []netip.Addr) bool {
	for prefix, added := range i.Added {
		before, was := earlier.Added[prefix]
		if was && before == added && i.Index == earlier.Index && slices.Contains(addresses, prefix.Addr()) {
			return true
		}
	}
	return false
}

// AddedAt says whether one of the addresses is on the interface since then.
func (i Interface) AddedAt(addresses []netip.Addr, stamp uint32) bool {
	for prefix, added := range i.Added {
		if added == stamp && slices.Contains(addresses, prefix.Addr()) {
			return true
		}
	}
	return false
}

// Stamp is when the first of the addresses was added, if the interface has it.
func (i Interface) Stamp(addresses []netip.Addr) uint32 {
	for prefix, added := range i.Added {
		if len(addresses) > 0 && prefix.Addr() == addresses[0] {
			return added
		}
	}
	return 0
}

// Source returns the node's own address that it speaks to its peers from: one that the peers know it by, else one in
// the network of the virtual address, else any of that family. The virtual addresses themselves are never a source.
func (i Interface) Source(virtual netip.Prefix, virtuals, peers []netip.Addr) (netip.Addr, bool) {
	best, rank := netip.Addr{}, 0
	for _, prefix := range i.Addresses {
		candidate := prefix.Addr()
		if candidate.Is4() != virtual.Addr().Is4() || slices.Contains(virtuals, candidate) ||
			slices.Contains(i.Unusable, candidate) {
			continue
		}
		current := 1
		switch {
		case slices.Contains(peers, candidate):
			current = 3
		case prefix.Masked().Contains(virtual.Addr()) || virtual.Masked().Contains(candidate):
			current = 2
		}
		if current > rank {
			best, rank = candidate, current
		}
	}
	return best, rank > 0
}

// Remove takes the addresses from the interface and returns those that were there.
func Remove(name string, addresses []netip.Addr) ([]netip.Addr, error) {
	var removed []netip.Addr
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up interface %s: %w", name, err)
	}
	err = each(link, addresses, func(link netlink.Link, entry netlink.Addr, address netip.Addr) error {
		if err := netlink.AddrDel(link, &entry); err != nil {
			return fmt.Errorf("removing %s from %s: %w", address, name, err)
		}
		removed = append(removed, address)
		return nil
	})
	return removed, err
}

// DropUnsent removes what the kernel knows of the neighbors on an interface without a carrier, and with it the packets
// that wait for their hardware addresses. The kernel would send these when the carrier is back.
func DropUnsent(index int, neighbors []netip.Addr) error {
	var failures []error
	for _, neighbor := range neighbors {
		family := netlink.FAMILY_V6
		if neighbor.Is4() {
			family = netlink.FAMILY_V4
		}
		err := netlink.NeighDel(&netlink.Neigh{LinkIndex: index, Family: family, IP: neighbor.AsSlice()})
		if err != nil && !errors.Is(err, syscall.ENOENT) && !errors.Is(err, syscall.ENODEV) {
			failures = append(failures, fmt.Errorf("removing neighbor %s: %w", neighbor, err))
		}
	}
	return errors.Join(failures...)
}

// each calls the function for those of the addresses that the interface has.
func each(link netlink.Link, addresses []netip.Addr, change func(netlink.Link, netlink.Addr, netip.Addr) error) error {
	var failures []error
	entries, err := netlink.AddrList(link, netlink.FAMILY_ALL)
	if err != nil {
		// A list that was interrupted by a change has some addresses, and those count.
		failures = append(failures, fmt.Errorf("listing the addresses of the interface: %w", err))
	}
	for _, entry := range entries {
		if prefix, ok := prefixOf(entry); ok && slices.Contains(addresses, prefix.Addr()) {
			failures = append(failures, change(link, entry, prefix.Addr()))
		}
	}
	return errors.Join(failures...)
}

func prefixOf(entry netlink.Addr) (netip.Prefix, bool) {
	if entry.IPNet == nil {
		return netip.Prefix{}, false
	}
	address, ok := netip.AddrFromSlice(entry.IP)
	if !ok {
		return netip.Prefix{}, false
	}
	bits, _ := entry.Mask.Size()
	return netip.PrefixFrom(address.Unmap(), bits), true
}
