package address

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"
)

// entry is one address from the kernel. netlink.AddrList does not return when an address was added.
type entry struct {
	prefix netip.Prefix
	flags  uint32

	// message is the whole message of the kernel, and times the part of it with the times.
	message []byte
	times   *nl.IfaCacheInfo
}

// isUnusable returns true if the address cannot be a source.
func (e entry) isUnusable() bool {
	return e.flags&unusableFlags != 0 || e.prefix.Addr().IsLinkLocalUnicast()
}

// change sends a request with the whole message of the kernel.
func (e entry) change(kind, flags int) error {
	request := nl.NewNetlinkRequest(kind, flags|unix.NLM_F_ACK)
	request.AddRawData(e.message)
	_, err := ask(request)
	return err
}

// remove removes the address. A missing address is not an error.
func (e entry) remove() error {
	if err := e.change(unix.RTM_DELADDR, 0); !errors.Is(err, unix.EADDRNOTAVAIL) {
		return err
	}
	return nil
}

// list returns the addresses of an interface, in the order of the kernel. The kernel filters other interfaces, which
// may have thousands of addresses. A deleted interface has none.
func list(index int) ([]entry, error) {
	request := nl.NewNetlinkRequest(unix.RTM_GETADDR, unix.NLM_F_DUMP)
	header := nl.NewIfAddrmsg(unix.AF_UNSPEC)
	header.Index = uint32(index) //nolint:gosec // An index is positive.
	request.AddData(header)
	messages, err := uninterrupted(func() ([][]byte, error) { return ask(request) })
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the addresses of interface %d: %w", index, err)
	}
	var entries []entry
	for _, message := range messages {
		if int(nl.DeserializeIfAddrmsg(message).Index) != index {
			continue
		}
		read, err := readEntry(message)
		if err != nil {
			return nil, err
		}
		entries = append(entries, read)
	}
	return entries, nil
}

// readEntry parses an address from a message of the kernel, and keeps the message.
func readEntry(message []byte) (entry, error) {
	header := nl.DeserializeIfAddrmsg(message)
	bits := int(header.Prefixlen)
	values, err := nl.ParseRouteAttrAsMap(message[header.Len():])
	if err != nil {
		return entry{}, fmt.Errorf("reading the attributes of an address: %w", err)
	}
	peer, own := values[unix.IFA_ADDRESS].Value, values[unix.IFA_LOCAL].Value
	if own == nil {
		own = peer
	}
	address, valid := netip.AddrFromSlice(own)
	flags, times := values[unix.IFA_FLAGS].Value, values[unix.IFA_CACHEINFO].Value
	if !valid || len(flags) < 4 || len(times) < unix.SizeofIfaCacheinfo {
		return entry{}, fmt.Errorf("reading an address: it has %d bytes, its flags %d and its times %d",
			len(own), len(flags), len(times))
	}
	if len(peer) == len(own) && string(peer) != string(own) {
		// The prefix is that of the peer address.
		bits = address.BitLen()
	}
	return entry{
		prefix: netip.PrefixFrom(address, bits), flags: binary.NativeEndian.Uint32(flags),
		message: message, times: nl.DeserializeIfaCacheInfo(times),
	}, nil
}
