package network

import (
	"fmt"
	"net"
	"net/netip"
)

// The address plan of every lab. Labs are isolated from one another, so all of them use the same addresses.
const (
	// Provisioning4 and Provisioning6 are the networks of the gateway, the machines and the virtual IPs.
	Provisioning4 = "172.22.0.0/24"
	Provisioning6 = "fd00:172:22::/64"
	// Pods holds the pod networks of all machines.
	Pods = "10.244.0.0/16"
	// Gateway4 and Gateway6 are the addresses of the switch itself.
	Gateway4 = "172.22.0.1"
	Gateway6 = "fd00:172:22::1"
)

// numberOfGateway is the last byte of the gateway's addresses.
const numberOfGateway = 1

// lastMachine is the highest number that a machine may have: 255 is the broadcast address.
const lastMachine = 254

// Address4 returns the IPv4 address that ends with number, such as 172.22.0.20.
func Address4(number byte) netip.Addr { return netip.AddrFrom4([4]byte{172, 22, 0, number}) }

// Address6 returns the IPv6 address that ends with number, written as in IPv4: machine 20 has fd00:172:22::20.
func Address6(number byte) netip.Addr {
	return netip.MustParseAddr(fmt.Sprintf("fd00:172:22::%d", number))
}

// HardwareAddress returns the MAC address of the network card of the machine with number.
func HardwareAddress(number byte) net.HardwareAddr {
	return net.HardwareAddr{0x02, 0x22, 0, 0, 0, number}
}

// PodNetwork returns the pod network of the machine with number.
func PodNetwork(number byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, number, 0}), 24)
}

// nextHop returns the next hop of routes to the pods of the machine with number. The switch has a static neighbour
// entry for it, so the routes do not depend on the IP address of the machine.
func nextHop(number byte) netip.Addr { return netip.AddrFrom4([4]byte{169, 254, 22, number}) }

// on combines an address with the prefix length of network.
func on(network string, address netip.Addr) *net.IPNet {
	bits := netip.MustParsePrefix(network).Bits()
	return &net.IPNet{IP: address.AsSlice(), Mask: net.CIDRMask(bits, address.BitLen())}
}
