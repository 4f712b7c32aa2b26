package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

// Extend sets the lifetime of the addresses that the interface has, in whole seconds from now. The kernel removes an
// address when its lifetime ends, also after the death of the guard. It requires the index of the interface.
func Extend(index int, addresses []netip.Addr, validity time.Duration) error {
	// The kernel would add a missing address, so Extend changes only existing ones.
	before, err := list(index)
	if err != nil {
		return err
	}
	before = slices.DeleteFunc(before, func(found entry) bool { return !slices.Contains(addresses, found.prefix.Addr()) })
	if len(before) == 0 {
		return nil
	}
	var failures []error
	for _, found := range before {
		if err := found.extend(validity); err != nil {
			failures = append(failures, fmt.Errorf("extending the lease of %s: %w", found.prefix.Addr(), err))
		}
	}
	return errors.Join(append(failures, removeAdded(index, before))...)
}

// removeAdded removes addresses that were removed just before their renewal, which added them again. The kernel cannot
// renew only existing addresses, but reports when each was added, in hundredths of a second. removeAdded misses an
// address that was added just before; the end of the lease removes it.
func removeAdded(index int, before []entry) error {
	after, err := list(index)
	if err != nil {
		return err
	}
	var failures []error
	for _, found := range after {
		isOther := func(was entry) bool {
			return was.prefix == found.prefix && was.times.Cstamp != found.times.Cstamp
		}
		if !slices.ContainsFunc(before, isOther) {
			continue
		}
		if err := found.remove(); err != nil {
			failures = append(failures, fmt.Errorf("removing %s, which the renewal added again: %w", found.prefix.Addr(), err))
		}
	}
	return errors.Join(failures...)
}

// extend changes the lifetime of the address.
func (e entry) extend(validity time.Duration) error {
	e.times.Valid = uint32(validity / time.Second) //nolint:gosec // A lease is short.
	if e.times.Prefered != 0 {
		// A preferred lifetime of 0 marks an address that must not become a source.
		e.times.Prefered = e.times.Valid
	}
	return e.change(unix.RTM_NEWADDR, unix.NLM_F_CREATE|unix.NLM_F_REPLACE)
}
