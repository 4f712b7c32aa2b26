package address

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// tick is the unit in which the kernel says times.
const tick = 10 * time.Millisecond

// lease is when the kernel added an address, and when it was last given more time.
type lease struct {
	created, renewed uint32
}

// later returns how many ticks one time is after another one. The kernel counts them in 32 bits, which are over after
// 497 days.
func later(stamp, earlier uint32) int32 {
	return int32(stamp - earlier) //nolint:gosec // The difference wraps around on purpose.
}

// Renewed returns when the lease of the VIPs was last renewed, and false if none of them is on the interface. An
// address that never had a lease counts from its arrival.
func (i Interface) Renewed(addresses []netip.Addr) (stamp uint32, found bool) {
	for prefix, lease := range i.leases {
		if slices.Contains(addresses, prefix.Addr()) && (!found || later(lease.renewed, stamp) > 0) {
			stamp, found = lease.renewed, true
		}
	}
	return stamp, found
}

// following returns what was observed after an earlier observation: a VIP stays added since then, unless its lease was
// not renewed for as long as the patience. Then it counts as added when the patience was over.
// Zero is no limit.
func (i Interface) following(earlier Interface, virtual []netip.Addr, patience time.Duration) Interface {
	i.Added = maps.Clone(i.Added)
	before, _ := earlier.Renewed(virtual)
	now, _ := i.Renewed(virtual)
	limit := int32(patience / tick) //nolint:gosec // Some seconds.
	isLate := patience > 0 && later(now, before) >= limit
	for prefix := range i.leases {
		switch {
		case !i.continues(earlier, prefix) || !slices.Contains(virtual, prefix.Addr()):
		case isLate:
			i.Added[prefix] = before + uint32(limit) //nolint:gosec // It is positive.
		default:
			i.Added[prefix] = earlier.Added[prefix]
		}
	}
	return i
}

// continues returns true if an address was there in the earlier observation and was not added again.
func (i Interface) continues(earlier Interface, prefix netip.Prefix) bool {
	was, known := earlier.leases[prefix]
	return known && i.Index == earlier.Index && was.created == i.leases[prefix].created
}

// withLeases returns the observation with renewals up to the earlier one: those since then are still to be told.
func (i Interface) withLeases(earlier Interface) Interface {
	i.leases = maps.Clone(i.leases)
	for prefix := range i.leases {
		if i.continues(earlier, prefix) {
			i.leases[prefix] = earlier.leases[prefix]
		}
	}
	return i
}

// renewing returns the observation with the lease that an event tells of.
func (i Interface) renewing(told entry) Interface {
	i.leases = maps.Clone(i.leases)
	i.leases[told.prefix] = lease{created: told.added, renewed: told.renewed}
	return i
}

// Clock turns the times of the kernel into those of a reader, who hears of them late by an unknown time. The zero value
// is ready.
type Clock struct {
	known  bool
	offset time.Duration
}

const (
	// leak is by how much the offset may grow with each time: the two clocks may drift apart.
	leak = time.Millisecond

	// wrapped is a growth that only a kernel shows that begins to count anew.
	wrapped = time.Hour
)

// Heard returns how long ago the time was, where the reader hears of it now. A time that waited to be read, because
// the reader stood still, is as old as it is.
func (c *Clock) Heard(stamp uint32, now time.Duration) time.Duration {
	then := time.Duration(stamp) * tick
	offset := now - then
	if !c.known || offset < c.offset || offset-c.offset > wrapped {
		c.known, c.offset = true, offset
	} else {
		c.offset = min(offset, c.offset+leak)
	}
	return now - then - c.offset
}
