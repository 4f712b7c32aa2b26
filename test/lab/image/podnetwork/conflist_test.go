package main

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMachineNumber(t *testing.T) {
	for name, test := range map[string]struct {
		card   string
		number byte
		found  bool
	}{
		"the card of a machine":       {card: "02:22:00:00:00:15", number: 21, found: true},
		"the last machine":            {card: "02:22:00:00:00:fe", number: 254, found: true},
		"a card of another vendor":    {card: "52:54:00:00:00:15"},
		"a longer address":            {card: "02:22:00:00:00:15:00:01"},
		"a machine of another number": {card: "02:22:00:00:01:15"},
	} {
		t.Run(name, func(t *testing.T) {
			card, err := net.ParseMAC(test.card)
			if err != nil {
				t.Fatal(err)
			}
			number, found := machineNumber(card)
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
