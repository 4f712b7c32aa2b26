package vip

import (
	"fmt"
	"net/netip"
	"slices"
)

// Address is a VIP of a group of nodes, and its network.
type Address struct {
	// Address is the VIP. One node at a time holds it.
	Address netip.Addr `json:"address"`

	// Prefix is the length of the prefix of the VIP on the interface of its holder.
	Prefix int `json:"prefix"`

	// Network contains the VIP and the own addresses of the nodes, in its masked form.
	Network netip.Prefix `json:"network"`
}

// NewAddress returns an address with its network, written like 192.0.2.2 and 192.0.2.0/24.
//
// On the interface, an IPv4 address has the prefix of its network, because a DHCP server serves only networks of the
// interface. An IPv6 address has 128: the kernel then marks it as deprecated and never chooses it as the source of a
// connection, which would break when the VIP moves.
func NewAddress(address, network string) (Address, error) {
	parsed, err := parseAddress(address)
	if err != nil {
		return Address{}, err
	}
	prefix, err := netip.ParsePrefix(network)
	if err != nil {
		return Address{}, fmt.Errorf("network %q of address %s is invalid; write it like 192.0.2.0/24 or 2001:db8::/64",
			network, parsed)
	}
	result := Address{Address: parsed, Prefix: prefix.Bits(), Network: prefix.Masked()}
	if parsed.Is6() {
		result.Prefix = 128
	}
	return result, result.check()
}

// OnInterface returns the VIP with its prefix on the interface of its holder.
func (a Address) OnInterface() netip.Prefix {
	return netip.PrefixFrom(a.Address, a.Prefix)
}

func (a Address) check() error {
	switch {
	case !a.Address.IsValid() || !a.Network.IsValid():
		return fmt.Errorf("VIP %q in network %q: both are required", a.Address, a.Network)
	case !a.Network.Contains(a.Address):
		return fmt.Errorf("VIP %s is not in its network %s; set the network that contains it",
			a.Address, a.Network)
	case a.Prefix < 1 || a.Prefix > a.Address.BitLen():
		return fmt.Errorf("VIP %s has the prefix length %d; use 1 to %d",
			a.Address, a.Prefix, a.Address.BitLen())
	case a.Network.Addr().BitLen()-a.Network.Bits() < 2:
		// Networks with one or two addresses have neither a network address nor a broadcast address.
		return nil
	case a.Address == a.Network.Addr():
		return fmt.Errorf("VIP %s is the address of the network %s itself; choose another one",
			a.Address, a.Network)
	case a.Address.Is4() && a.Address == lastOf(a.Network):
		return fmt.Errorf("VIP %s is the broadcast address of %s; choose another one", a.Address, a.Network)
	default:
		return nil
	}
}

// lastOf returns the highest address of an IPv4 network.
func lastOf(network netip.Prefix) netip.Addr {
	bytes := network.Addr().As4()
	for i := range bytes {
		if free := 8*(i+1) - network.Bits(); free > 0 {
			bytes[i] |= byte(1<<min(free, 8) - 1)
		}
	}
	return netip.AddrFrom4(bytes)
}

// Addresses returns each VIP with the network of the same index, in the same order: URLs have the first VIP.
func Addresses(virtualIPs, networks []string) ([]Address, error) {
	if len(virtualIPs) != len(networks) {
		return nil, fmt.Errorf("there are %d VIPs and %d networks; set the network of each VIP, in the "+
			"same order", len(virtualIPs), len(networks))
	}
	addresses := make([]Address, 0, len(virtualIPs))
	for i := range virtualIPs {
		address, err := NewAddress(virtualIPs[i], networks[i])
		if err != nil {
			return nil, err
		}
		addresses = append(addresses, address)
	}
	return addresses, checkFamilies(addresses)
}

// checkFamilies requires one or two VIPs of different families: two of one family could move to different nodes.
func checkFamilies(addresses []Address) error {
	if len(addresses) == 0 {
		return fmt.Errorf("there is no VIP; set one for each family that is used")
	}
	for i, address := range addresses {
		for _, other := range addresses[:i] {
			if other.Address.Is4() == address.Address.Is4() {
				return fmt.Errorf("VIPs %s and %s are of one family; set at most one of each family",
					other.Address, address.Address)
			}
		}
	}
	return nil
}

// Members parses the own addresses of the nodes of the group. The result is sorted and has each node once, so that all
// nodes of the group have the same list. It returns an error for members of a family without a VIP, and for a VIP among
// the members: a node with the VIP as its own address never releases it.
func Members(nodes []string, addresses []Address) ([]netip.Addr, error) {
	members := make([]netip.Addr, 0, len(nodes))
	for _, node := range nodes {
		member, err := parseAddress(node)
		if err != nil {
			return nil, err
		}
		members = append(members, member)
	}
	slices.SortFunc(members, netip.Addr.Compare)
	members = slices.Compact(members)
	return members, checkMembers(members, addresses)
}

func checkMembers(members []netip.Addr, addresses []Address) error {
	for _, member := range members {
		if !slices.ContainsFunc(addresses, func(a Address) bool { return a.Address.Is4() == member.Is4() }) {
			return fmt.Errorf("node address %s is of a family without a VIP; omit it", member)
		}
		if slices.ContainsFunc(addresses, func(a Address) bool { return a.Address == member }) {
			return fmt.Errorf("%s is a VIP and cannot be the own address of a node; assign another address to the node",
				member)
		}
	}
	return nil
}

// parseAddress parses an address that a node can have as its own address.
func parseAddress(text string) (netip.Addr, error) {
	address, err := netip.ParseAddr(text)
	switch {
	case err != nil:
		return netip.Addr{}, fmt.Errorf("%q is not an address; write it like 192.0.2.2 or 2001:db8::2", text)
	case address.Zone() != "", address.Is4In6(), address.Is6() && address.IsLinkLocalUnicast():
		return netip.Addr{}, fmt.Errorf("address %q works on one interface or one machine only; use a plain IPv4 or a "+
			"routable IPv6 address", text)
	case address.IsUnspecified(), address.IsLoopback(), address.IsMulticast():
		return netip.Addr{}, fmt.Errorf("address %q does not belong to a node of a network; choose another one", text)
	default:
		return address, nil
	}
}
