package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/netip"
)

// cards is the start of the MAC addresses of all machines of a lab. The number of the machine follows.
var cards = []byte{0x02, 0x22, 0, 0, 0}

// machineNumber returns the last byte of the MAC address of a machine. IP addresses do not identify a machine: its
// network data may set any.
func machineNumber(card net.HardwareAddr) (number byte, found bool) {
	if len(card) != len(cards)+1 || !bytes.HasPrefix(card, cards) {
		return 0, false
	}
	return card[len(cards)], true
}

// podSubnet returns the subnet of the pods of a machine.
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

// render returns the CNI configuration of a machine: each pod has a veth pair to the machine, which routes.
func render(number byte) ([]byte, error) {
	return json.MarshalIndent(network{
		Version: "1.0.0",
		Name:    "lab",
		Plugins: []plugin{
			{Type: "ptp", Addresses: &addresses{
				Type: "host-local",
				// Deleted at a reboot, like the pods.
				DataDir: "/run/cni-addresses",
				Routes:  []route{{Destination: "0.0.0.0/0"}},
				Ranges:  [][]addressRange{{{Subnet: podSubnet(number)}}},
			}},
			{Type: "portmap", Capabilities: map[string]bool{"portMappings": true}},
		},
	}, "", "  ")
}
