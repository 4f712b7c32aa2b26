package main

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMachineNumber(t *testing.T) {
	for name, test := range map[string]struct {
		addresses []string
		number    byte
		found     bool
	}{
		"the address of the machine": {addresses: []string{"172.22.0.21/24"}, number: 21, found: true},
		"among others":               {addresses: []string{"fd00:172:22::15/64", "172.22.0.254/24"}, number: 254, found: true},
		"not a virtual address":      {addresses: []string{"172.22.0.100/32"}},
		"virtual address first":      {addresses: []string{"172.22.0.2/32", "172.22.0.22/24"}, number: 22, found: true},
		"another network":            {addresses: []string{"192.168.1.5/24"}},
		"none":                       {},
	} {
		t.Run(name, func(t *testing.T) {
			var addresses []net.Addr
			for _, text := range test.addresses {
				address, network, err := net.ParseCIDR(text)
				if err != nil {
					t.Fatal(err)
				}
				addresses = append(addresses, &net.IPNet{IP: address, Mask: network.Mask})
			}
			number, found := machineNumber(addresses)
			if number != test.number || found != test.found {
				t.Errorf("got %d, %v; want %d, %v", number, found, test.number, test.found)
			}
		})
	}
}

func TestRender(t *testing.T) {
	const want = `{
  "cniVersion": "1.0.0",
  "name": "lab",
  "plugins": [
    {
      "type": "ptp",
      "ipam": {
        "type": "host-local",
        "dataDir": "/run/cni-addresses",
        "routes": [
          {
            "dst": "0.0.0.0/0"
          }
        ],
        "ranges": [
          [
            {
              "subnet": "10.244.21.0/24"
            }
          ]
        ]
      }
    },
    {
      "type": "portmap",
      "capabilities": {
        "portMappings": true
      }
    }
  ]
}`
	got, err := render(21)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}
