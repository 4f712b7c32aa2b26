package address

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
)

const (
	// ifaFlags is the attribute with all flags of an address, from if_addr.h of the kernel.
	ifaFlags = 0x08

	// timesLength is the length of the attribute with its times.
	timesLength = 16
)

// listAttempts is how often a list is read that changes while it is read.
const listAttempts = 10

// entry is what the kernel tells of one address. It is read here because netlink.AddrList keeps for itself when an
// address was added.
type entry struct {
	prefix                netip.Prefix
	flags, added, renewed uint32

	// message is all that the kernel said.
	message []byte
}

// isUnusable says whether the address cannot be a source.
func (e entry) isUnusable() bool {
	return e.flags&unusableFlags != 0 || e.prefix.Addr().IsLinkLocalUnicast()
}

// list reads the addresses of an interface, in the kernel's order. The kernel leaves those of other interfaces out:
// nodes have thousands of them, which come and go. An interface that is gone has none.
func (k *kernel) list(index int) ([]entry, error) {
	var entries []entry
	err := uninterrupted(func() error {
		entries = entries[:0]
		request := nl.NewNetlinkRequest(syscall.RTM_GETADDR, syscall.NLM_F_DUMP)
		header := nl.NewIfAddrmsg(syscall.AF_UNSPEC)
		header.Index = uint32(index) //nolint:gosec // An index is positive.
		request.AddData(header)
		return k.ask(request, func(message []byte) error {
			if int(nl.DeserializeIfAddrmsg(message).Index) != index {
				return nil
			}
			read, err := readEntry(bytes.Clone(message))
			entries = append(entries, read)
			return err
		})
	})
	if errors.Is(err, syscall.ENODEV) {
		return nil, nil
	}
	return entries, err
}

// uninterrupted reads a list again that changed while it was read: what was read may lack any entry.
func uninterrupted(list func() error) (err error) {
	for range listAttempts {
		if err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return err
}

// readEntry reads what the kernel says of an address, and keeps it.
func readEntry(message []byte) (entry, error) {
	if len(message) < syscall.SizeofIfAddrmsg {
		return entry{}, fmt.Errorf("reading an address: the kernel tells %d bytes of it", len(message))
	}
	header := nl.DeserializeIfAddrmsg(message)
	bits := int(header.Prefixlen)
	values, err := nl.ParseRouteAttrAsMap(message[header.Len():])
	if err != nil {
		return entry{}, fmt.Errorf("reading the attributes of an address: %w", err)
	}
	peer, own := values[syscall.IFA_ADDRESS].Value, values[syscall.IFA_LOCAL].Value
	if own == nil {
		own = peer
	}
	address, valid := netip.AddrFromSlice(own)
	flags, times := values[ifaFlags].Value, values[syscall.IFA_CACHEINFO].Value
	if !valid || len(flags) < 4 || len(times) < timesLength {
		return entry{}, fmt.Errorf("reading an address: the kernel tells %d, %d and %d bytes of it, its flags and its times",
			len(own), len(flags), len(times))
	}
	if len(peer) == len(own) && string(peer) != string(own) {
		// The prefix is that of the other end of the line.
		bits = address.BitLen()
	}
	said := nl.DeserializeIfaCacheInfo(times)
	return entry{
		prefix: netip.PrefixFrom(address, bits),
		flags:  binary.NativeEndian.Uint32(flags),
		added:  said.Cstamp, renewed: said.Tstamp,
		message: message,
	}, nil
}
