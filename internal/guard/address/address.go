// Package address reads and changes the addresses of the network interface that carries the VIP of Ironic. It uses
// netlink and no other program. Changes require CAP_NET_ADMIN.
package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// Interface is the observed state of a network interface.
type Interface struct {
	// Index of the interface. 0 means that no interface has the name.
	Index int

	// Up is true if the interface is up and has a carrier. A bridge with uplinks also requires an uplink with a
	// carrier.
	Up bool

	// Addresses of the interface, in the order of the kernel.
	Addresses []netip.Prefix

	// Unusable are the addresses that cannot be a source: link-local, deprecated or tentative.
	Unusable []netip.Addr

	// Added is the time when each address was added, in hundredths of a second since boot. A removed and added
	// address has a new time. A renewed address keeps its time. A VIP with a lease that a Watcher saw renewed too
	// late counts as added then.
	Added map[netip.Prefix]uint32

	// leases are the lifetimes of each address from the kernel.
	leases map[netip.Prefix]lease

	// uplinks are the ports of a bridge that lead to other machines.
	uplinks []int
}

// unusableFlags are the flags of addresses that cannot be a source.
const unusableFlags = unix.IFA_F_DEPRECATED | unix.IFA_F_TENTATIVE | unix.IFA_F_DADFAILED

// Observe reads the interface. It returns no error if the interface does not exist.
func Observe(name string) (Interface, error) {
	link, err := find(name)
	if err != nil || link == nil {
		return Interface{}, err
	}
	observed := Interface{
		Index: link.Attrs().Index, Up: isUp(link), Added: map[netip.Prefix]uint32{}, leases: map[netip.Prefix]lease{},
	}
	if link.Type() == bridgeType {
		if err := observed.observeUplinks(); err != nil {
			return Interface{}, err
		}
	}
	entries, err := list(observed.Index)
	if err != nil {
		return Interface{}, err
	}
	for _, entry := range entries {
		observed.Addresses = append(observed.Addresses, entry.prefix)
		observed.Added[entry.prefix] = entry.times.Cstamp
		observed.leases[entry.prefix] = lease{created: entry.times.Cstamp, renewed: entry.times.Tstamp}
		if entry.isUnusable() {
			observed.Unusable = append(observed.Unusable, entry.prefix.Addr())
		}
	}
	return observed, nil
}

// find returns the interface with the name, and nil if there is none.
func find(name string) (netlink.Link, error) {
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("looking up interface %s: %w", name, err)
	default:
		return link, nil
	}
}

// has returns true if the interface has the address.
func (i Interface) has(address netip.Addr) bool {
	return slices.ContainsFunc(i.Addresses, func(prefix netip.Prefix) bool { return prefix.Addr() == address })
}

// Has returns true if the interface has all addresses.
func (i Interface) Has(addresses []netip.Addr) bool {
	return len(addresses) > 0 && !slices.ContainsFunc(addresses, func(one netip.Addr) bool { return !i.has(one) })
}

// HasAny returns true if the interface has one of the addresses.
func (i Interface) HasAny(addresses []netip.Addr) bool {
	return slices.ContainsFunc(addresses, i.has)
}

// Lost returns the addresses that the interface had in an earlier observation, and does not have.
func (i Interface) Lost(earlier Interface, addresses []netip.Addr) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(addresses), func(one netip.Addr) bool { return i.has(one) || !earlier.has(one) })
}

// Kept returns true if one of the addresses was on the interface without interruption since an earlier observation.
func (i Interface) Kept(earlier Interface, addresses []netip.Addr) bool {
	for prefix, added := range i.Added {
		before, was := earlier.Added[prefix]
		if was && before == added && i.Index == earlier.Index && slices.Contains(addresses, prefix.Addr()) {
			return true
		}
	}
	return false
}

// HasSince returns true if one of the addresses was on the interface at a time, and has been since.
func (i Interface) HasSince(addresses []netip.Addr, stamp uint32) bool {
	for prefix, added := range i.Added {
		if later(stamp, added) >= 0 && slices.Contains(addresses, prefix.Addr()) {
			return true
		}
	}
	return false
}

// Stamp returns the time when the first of the addresses was added, if the interface has it.
func (i Interface) Stamp(addresses []netip.Addr) uint32 {
	for prefix, added := range i.Added {
		if len(addresses) > 0 && prefix.Addr() == addresses[0] {
			return added
		}
	}
	return 0
}

// Source returns the own address of the node for packets to its peers: an address in the list of peers, else one in
// the network of the VIP, else any of that IP family. VIPs are never a source.
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

// Remove removes the addresses from the interface and returns those that existed.
func Remove(name string, addresses []netip.Addr) ([]netip.Addr, error) {
	link, err := find(name)
	if err != nil || link == nil {
		return nil, err
	}
	entries, err := list(link.Attrs().Index)
	if err != nil {
		return nil, err
	}
	var removed []netip.Addr
	var failures []error
	for _, found := range entries {
		if !slices.Contains(addresses, found.prefix.Addr()) {
			continue
		}
		if err := found.remove(); err != nil {
			failures = append(failures, fmt.Errorf("removing %s from %s: %w", found.prefix.Addr(), name, err))
			continue
		}
		removed = append(removed, found.prefix.Addr())
	}
	return removed, errors.Join(failures...)
}

// DropUnsent removes the neighbor entries of an interface without a carrier, and with them the queued packets.
// Otherwise the kernel sends these packets when the carrier returns.
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
