package address

import (
	"maps"
	"net/netip"
	"slices"
	"time"
)

// tick is the unit of the times of the kernel.
const tick = 10 * time.Millisecond

// lease has the times when the kernel added an address, and when it was last renewed.
type lease struct {
	created, renewed uint32
}

// later returns the number of ticks from one time to another. The kernel counts them in 32 bits, which wrap around
// after 497 days.
func later(stamp, earlier uint32) int32 {
	return int32(stamp - earlier) //nolint:gosec // The difference wraps around on purpose.
}

// Renewed returns when the lease of the VIPs was last renewed, and false if the interface has none of them. An
// address without a lease counts as renewed when it was added.
func (i Interface) Renewed(addresses []netip.Addr) (stamp uint32, found bool) {
	for prefix, lease := range i.leases {
		if slices.Contains(addresses, prefix.Addr()) && (!found || later(lease.renewed, stamp) > 0) {
			stamp, found = lease.renewed, true
		}
	}
	return stamp, found
}

// following returns the observation after an earlier one. A VIP keeps its time, unless its lease was not renewed for
// the patience. Then it counts as added when the patience ended. A patience of zero means no limit.
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

// continues returns true if the earlier observation has the address and the kernel has not added it again.
func (i Interface) continues(earlier Interface, prefix netip.Prefix) bool {
	was, known := earlier.leases[prefix]
	return known && i.Index == earlier.Index && was.created == i.leases[prefix].created
}

// withLeases returns the observation with the renewals up to the earlier one. Events report the later ones.
func (i Interface) withLeases(earlier Interface) Interface {
	i.leases = maps.Clone(i.leases)
	for prefix := range i.leases {
		if i.continues(earlier, prefix) {
			i.leases[prefix] = earlier.leases[prefix]
		}
	}
	return i
}

// renewing returns the observation with the lease of an event.
func (i Interface) renewing(renewed entry) Interface {
	i.leases = maps.Clone(i.leases)
	i.leases[renewed.prefix] = lease{created: renewed.times.Cstamp, renewed: renewed.times.Tstamp}
	return i
}

// Clock converts times of the kernel to times of a reader that receives them with an unknown delay. The zero value is
// ready to use.
type Clock struct {
	known  bool
	offset time.Duration
}

const (
	// leak is the growth of the offset with each time, because the clocks may drift apart.
	leak = time.Millisecond

	// wrapped is a growth of the offset that occurs only when the counter of the kernel wraps around.
	wrapped = time.Hour
)

// Heard returns how long ago a time was that the reader receives now. It includes the delay of a reader that was
// stopped.
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
