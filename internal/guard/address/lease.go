package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"syscall"
	"time"

	"github.com/vishvananda/netlink/nl"
)

// Leases sets the lifetime of addresses and renews it. The kernel removes an address when its lifetime ends, also
// after the death of the guard. The zero value is ready to use. Leases is not safe for concurrent use.
type Leases struct {
	kernel *kernel
}

// Close closes the connection to the kernel. The next lease opens a new one.
func (l *Leases) Close() {
	if l.kernel != nil {
		l.kernel.close()
		l.kernel = nil
	}
}

// Extend sets the lifetime of the addresses that the interface has, in whole seconds from now. The kernel requires
// the index of the interface.
func (l *Leases) Extend(index int, addresses []netip.Addr, validity time.Duration) error {
	err := l.extend(index, addresses, validity)
	if err != nil {
		l.Close()
	}
	return err
}

func (l *Leases) extend(index int, addresses []netip.Addr, validity time.Duration) (err error) {
	if l.kernel == nil {
		if l.kernel, err = dial(); err != nil {
			return err
		}
	}
	// The kernel would add a missing address, so extend changes only existing ones.
	before, err := l.kernel.list(index)
	if err != nil {
		return fmt.Errorf("listing the addresses of the interface: %w", err)
	}
	before = slices.DeleteFunc(before, func(found entry) bool { return !slices.Contains(addresses, found.prefix.Addr()) })
	if len(before) == 0 {
		return nil
	}
	var failures []error
	for _, found := range before {
		request, err := found.extended(validity)
		if err == nil {
			err = l.kernel.send(request, func([]byte) error { return nil })
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("extending the lease of %s: %w", found.prefix.Addr(), err))
		}
	}
	return errors.Join(append(failures, l.removeAdded(index, before))...)
}

// removeAdded removes addresses that were removed just before their renewal, which added them again. The kernel cannot
// renew only existing addresses, but reports when each was added, in hundredths of a second. removeAdded misses an
// address that was added just before; the end of the lease removes it.
func (l *Leases) removeAdded(index int, before []entry) error {
	after, err := l.kernel.list(index)
	if err != nil {
		return fmt.Errorf("listing the addresses of the interface: %w", err)
	}
	var failures []error
	for _, found := range after {
		isOther := func(was entry) bool { return was.prefix == found.prefix && was.added != found.added }
		if !slices.ContainsFunc(before, isOther) {
			continue
		}
		if err := l.kernel.remove(found); err != nil {
			failures = append(failures, fmt.Errorf("removing %s, which the renewal added again: %w", found.prefix.Addr(), err))
		}
	}
	return errors.Join(failures...)
}

// extended returns a request for the same address with another lifetime.
func (e entry) extended(validity time.Duration) (*nl.NetlinkRequest, error) {
	header := nl.DeserializeIfAddrmsg(e.message)
	attributes, err := nl.ParseRouteAttr(e.message[header.Len():])
	if err != nil {
		return nil, err
	}
	request := nl.NewNetlinkRequest(syscall.RTM_NEWADDR, syscall.NLM_F_CREATE|syscall.NLM_F_REPLACE|syscall.NLM_F_ACK)
	request.AddData(header)
	for _, attribute := range attributes {
		value := attribute.Value
		switch attribute.Attr.Type {
		case syscall.IFA_LABEL, syscall.IFA_BROADCAST:
			// The message has both attributes already.
			continue
		case syscall.IFA_CACHEINFO:
			times := nl.DeserializeIfaCacheInfo(value)
			times.Valid = uint32(validity / time.Second) //nolint:gosec // A lease is short.
			if times.Prefered != 0 {
				// A preferred lifetime of 0 marks an address that must not become a source.
				times.Prefered = times.Valid
			}
			value = times.Serialize()
		}
		request.AddData(nl.NewRtAttr(int(attribute.Attr.Type), value))
	}
	return request, nil
}

// remove removes an address. A missing address is not an error.
func (k *kernel) remove(found entry) error {
	header := nl.DeserializeIfAddrmsg(found.message)
	attributes, err := nl.ParseRouteAttr(found.message[header.Len():])
	if err != nil {
		return err
	}
	request := nl.NewNetlinkRequest(syscall.RTM_DELADDR, syscall.NLM_F_ACK)
	request.AddData(header)
	for _, attribute := range attributes {
		if kind := attribute.Attr.Type; kind == syscall.IFA_LOCAL || kind == syscall.IFA_ADDRESS {
			request.AddData(nl.NewRtAttr(int(kind), attribute.Value))
		}
	}
	err = k.send(request, func([]byte) error { return nil })
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil
	}
	return err
}
