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

// listAttempts is the maximum number of reads of a list that changes during the read.
const listAttempts = 10

// entry is one address from the kernel. netlink.AddrList does not return when an address was added.
type entry struct {
	prefix                netip.Prefix
	flags, added, renewed uint32

	// message is the whole message of the kernel.
	message []byte
}

// isUnusable returns true if the address cannot be a source.
func (e entry) isUnusable() bool {
	return e.flags&unusableFlags != 0 || e.prefix.Addr().IsLinkLocalUnicast()
}

// list returns the addresses of an interface, in the order of the kernel. The kernel filters other interfaces, which
// may have thousands of addresses. A deleted interface has none.
func (k *kernel) list(index int) ([]entry, error) {
	var entries []entry
	err := uninterrupted(func() error {
		entries = entries[:0]
		request := nl.NewNetlinkRequest(syscall.RTM_GETADDR, syscall.NLM_F_DUMP)
		header := nl.NewIfAddrmsg(syscall.AF_UNSPEC)
		header.Index = uint32(index) //nolint:gosec // An index is positive.
		request.AddData(header)
		return k.send(request, func(message []byte) error {
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

// uninterrupted repeats a read of a list that changed during the read: the result may lack any entry.
func uninterrupted(list func() error) (err error) {
	for range listAttempts {
		if err = list(); !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	return err
}

// readEntry parses an address from a message of the kernel, and keeps the message.
func readEntry(message []byte) (entry, error) {
	if len(message) < syscall.SizeofIfAddrmsg {
		return entry{}, fmt.Errorf("reading an address: the message has %d bytes", len(message))
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
		return entry{}, fmt.Errorf("reading an address: it has %d bytes, its flags %d and its times %d",
			len(own), len(flags), len(times))
	}
	if len(peer) == len(own) && string(peer) != string(own) {
		// The prefix is that of the peer address.
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
