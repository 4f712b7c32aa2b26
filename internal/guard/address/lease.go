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

// Leases gives addresses a lifetime and renews it. The kernel removes an address whose lifetime ends, also after
// the processes that renew it are dead. The zero value is ready. Not safe for
// concurrent use.
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

// Extend gives those of the addresses that the interface has a lease from now, in whole seconds. The interface is named
// by its index, which is what the kernel needs: this is done all the time.
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
	// Only what is there now is changed: the kernel would add what has left.
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
			err = l.kernel.ask(request, func([]byte) error { return nil })
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("extending the lease of %s: %w", found.prefix.Addr(), err))
		}
	}
	return errors.Join(append(failures, l.takeBack(index, before))...)
}

// takeBack removes what has left just before it was to be extended, and was added by that. The kernel knows no way to
// extend only what is there, but it says since when an address is, in hundredths of a second. What is hardly older than
// that when it leaves is not told apart; it goes when the lease ends.
func (l *Leases) takeBack(index int, before []entry) error {
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
			failures = append(failures, fmt.Errorf("removing %s, which was to leave: %w", found.prefix.Addr(), err))
		}
	}
	return errors.Join(failures...)
}

// extended asks for the address as it is, with other times.
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
			// What is there already keeps both.
			continue
		case syscall.IFA_CACHEINFO:
			times := nl.DeserializeIfaCacheInfo(value)
			times.Valid = uint32(validity / time.Second) //nolint:gosec // A lease is short.
			if times.Prefered != 0 {
				// 0 marks an address that must not become a source; that stays.
				times.Prefered = times.Valid
			}
			value = times.Serialize()
		}
		request.AddData(nl.NewRtAttr(int(attribute.Attr.Type), value))
	}
	return request, nil
}

// remove takes an address away. One that is gone is no error.
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
	err = k.ask(request, func([]byte) error { return nil })
	if errors.Is(err, syscall.EADDRNOTAVAIL) {
		return nil
	}
	return err
}
