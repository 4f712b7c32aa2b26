// Package address reads and changes the addresses of the network interface that carries the VIP of Ironic. It talks to
// the kernel through netlink and needs no other program; changing needs CAP_NET_ADMIN, reading needs nothing.
package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"

	"github.com/vishvananda/netlink"
)

// Interface is what was observed of a network interface.
type Interface struct {
	// Index of the interface; 0 means that there is none of that name.
	Index int

	// Up says that the interface is up and has a carrier, and if it is a bridge with uplinks, one of them as well.
	Up bool

	// Addresses of the interface, in the kernel's order.
	Addresses []netip.Prefix

	// Unusable are those of the addresses that cannot be a source: link-local, deprecated, or still being checked.
	Unusable []netip.Addr

	// Added is when each of the addresses was added, in hundredths of a second since the start of the machine. An
	// address that left and came back has another time than before, one that was given more time has not. A VIP whose
	// lease a Watcher saw renewed too late counts as added then.
	Added map[netip.Prefix]uint32

	// leases are the times of each address as the kernel says them.
	leases map[netip.Prefix]lease

	// uplinks are the ports of a bridge that lead to other machines.
	uplinks []int
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
	index := link.Attrs().Index
	observed := Interface{
		Index: index, Up: isUp(link), Added: map[netip.Prefix]uint32{}, leases: map[netip.Prefix]lease{},
	}
	connection, err := dial()
	if err != nil {
		return Interface{}, err
	}
	defer connection.close()
	if link.Type() == bridgeType {
		if err := connection.observeUplinks(&observed); err != nil {
			return Interface{}, fmt.Errorf("listing the ports of bridge %s: %w", name, err)
		}
	}
	entries, err := connection.list(index)
	if err != nil {
		return Interface{}, fmt.Errorf("listing the addresses of %s: %w", name, err)
	}
	for _, entry := range entries {
		observed.Addresses = append(observed.Addresses, entry.prefix)
		observed.Added[entry.prefix] = entry.added
		observed.leases[entry.prefix] = lease{created: entry.added, renewed: entry.renewed}
		if entry.isUnusable() {
			observed.Unusable = append(observed.Unusable, entry.prefix.Addr())
		}
	}
	return observed, nil
}

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

// Kept says whether one of the addresses has been on the interface all the time since an earlier observation. A
// node that lost all of them in between has lost them, even if they are back before the next observation.
func (i Interface) Kept(earlier Interface, addresses []netip.Addr) bool {
	for prefix, added := range i.Added {
		before, was := earlier.Added[prefix]
		if was && before == added && i.Index == earlier.Index && slices.Contains(addresses, prefix.Addr()) {
			return true
		}
	}
	return false
}

// HasSince says whether one of the addresses was on the interface then, and has been since.
func (i Interface) HasSince(addresses []netip.Addr, stamp uint32) bool {
	for prefix, added := range i.Added {
		if later(stamp, added) >= 0 && slices.Contains(addresses, prefix.Addr()) {
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
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	if errors.As(err, &missing) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking up interface %s: %w", name, err)
	}
	connection, err := dial()
	if err != nil {
		return nil, err
	}
	defer connection.close()
	entries, err := connection.list(link.Attrs().Index)
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of %s: %w", name, err)
	}
	var removed []netip.Addr
	var failures []error
	for _, found := range entries {
		if !slices.Contains(addresses, found.prefix.Addr()) {
			continue
		}
		if err := connection.remove(found); err != nil {
			failures = append(failures, fmt.Errorf("removing %s from %s: %w", found.prefix.Addr(), name, err))
			continue
		}
		removed = append(removed, found.prefix.Addr())
	}
	return removed, errors.Join(failures...)
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
