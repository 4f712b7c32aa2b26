package rule

import (
	"fmt"
	"net/netip"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Address parses an IPv4 or IPv6 address. It returns a nil error only for a valid address.
func Address(path *field.Path, value string) (netip.Addr, *field.Error) {
	if value == "" {
		return netip.Addr{}, field.Required(path, "give an IPv4 or IPv6 address")
	}
	address, err := netip.ParseAddr(value)
	if err != nil {
		return netip.Addr{}, field.Invalid(path, value, "is not an IP address; write it like 192.0.2.10 or 2001:db8::10")
	}
	if address.Zone() != "" {
		return netip.Addr{}, field.Invalid(path, value, "has a zone; remove the % and the text after it")
	}
	return address, nil
}

// nodeAddress parses a unicast address that a node can have and others can reach.
func nodeAddress(path *field.Path, value string) (netip.Addr, *field.Error) {
	address, err := Address(path, value)
	switch {
	case err != nil:
		return address, err
	case address.Is4In6():
		return address, field.Invalid(path, value, fmt.Sprintf("is an IPv4 address in the form of an IPv6 address; "+
			"write %s", address.Unmap()))
	case address.IsUnspecified(), address.IsLoopback(), address.IsMulticast(), isBroadcast(address):
		return address, field.Invalid(path, value, "is not the address of one node; "+
			"use no loopback, multicast, broadcast or unspecified address")
	default:
		return address, nil
	}
}

func isBroadcast(address netip.Addr) bool {
	return address == netip.AddrFrom4([4]byte{255, 255, 255, 255})
}

// Family returns the name of the address family for messages.
func Family(address netip.Addr) string {
	if address.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
