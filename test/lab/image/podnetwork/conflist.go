package main

import (
	"encoding/json"
	"net"
	"net/netip"
)

// provisioning is the network that the machines of a lab are plugged into.
var provisioning = netip.MustParsePrefix("172.22.0.0/24")

// machineNumber is the last byte of the address of the machine. An address with another mask than the network's is a
// virtual one that the machine holds for a while.
func machineNumber(addresses []net.Addr) (number byte, found bool) {
	for _, address := range addresses {
		prefix, err := netip.ParsePrefix(address.String())
		if err == nil && prefix.Masked() == provisioning {
			return prefix.Addr().As4()[3], true
		}
	}
	return 0, false
}

// podSubnet is where the pods of a machine have their addresses.
func podSubnet(number byte) netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, number, 0}), 24)
}

// network is a CNI configuration list.
type network struct {
	Version string   `json:"cniVersion"`
	Name    string   `json:"name"`
	Plugins []plugin `json:"plugins"`
}

type plugin struct {
	Type         string          `json:"type"`
	Addresses    *addresses      `json:"ipam,omitempty"`
	Capabilities map[string]bool `json:"capabilities,omitempty"`
}

type addresses struct {
	Type    string           `json:"type"`
	DataDir string           `json:"dataDir"`
	Routes  []route          `json:"routes"`
	Ranges  [][]addressRange `json:"ranges"`
}

type route struct {
	Destination string `json:"dst"`
}

type addressRange struct {
	Subnet netip.Prefix `json:"subnet"`
}

// render writes the network of a machine's pods: each pod has a cable to the machine, which routes.
func render(number byte) ([]byte, error) {
	return json.MarshalIndent(network{
		Version: "1.0.0",
		Name:    "lab",
		Plugins: []plugin{
			{Type: "ptp", Addresses: &addresses{
				Type: "host-local",
				// Gone after a reboot, as the pods are.
				DataDir: "/run/cni-addresses",
				Routes:  []route{{Destination: "0.0.0.0/0"}},
				Ranges:  [][]addressRange{{{Subnet: podSubnet(number)}}},
			}},
			{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
}
