package address

import (
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
	prefix       netip.Prefix
	flags, added uint32
}

// list reads the addresses of an interface, in the kernel's order.
func list(index int) ([]entry, error) {
	var messages [][]byte
	var err error
	for range listAttempts {
		request := nl.NewNetlinkRequest(syscall.RTM_GETADDR, syscall.NLM_F_DUMP)
		request.AddData(nl.NewIfAddrmsg(syscall.AF_UNSPEC))
		messages, err = request.Execute(syscall.NETLINK_ROUTE, syscall.RTM_NEWADDR)
		// What is left of a list that changed meanwhile may lack any address.
		if !errors.Is(err, netlink.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	var entries []entry
	for _, message := range messages {
		header := nl.DeserializeIfAddrmsg(message)
		if int(header.Index) != index {
			continue
		}
		read, err := readEntry(message[header.Len():], int(header.Prefixlen))
		if err != nil {
			return nil, err
		}
		entries = append(entries, read)
	}
	return entries, nil
}

// readEntry reads the attributes of an address.
func readEntry(attributes []byte, bits int) (entry, error) {
	values, err := nl.ParseRouteAttrAsMap(attributes)
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
	return entry{
		prefix: netip.PrefixFrom(address, bits),
		flags:  binary.NativeEndian.Uint32(flags),
		added:  nl.DeserializeIfaCacheInfo(times).Cstamp,
	}, nil
}
