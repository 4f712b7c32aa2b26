// Command podnetwork gives a machine of a lab its pod network: it writes the CNI configuration that follows from the
// MAC address of the machine, and lets the kernel forward packets.
//
// The machine with the MAC address 02:22:00:00:00:X has the pods 10.244.X.0/24 and the switch of the lab routes them
// there, so nodes need no routes to one another and no address is translated. The trade-off: the file is right for a
// lab and nothing else.
package main

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
)

const (
	// card is the name of the only network card of a machine.
	card = "eth0"

	// configuration is where containerd looks for the network of pods.
	configuration = "/etc/cni/net.d/10-lab.conflist"

	// forwarding is the switch of the kernel for packets between pods and the card.
	forwarding = "/proc/sys/net/ipv4/ip_forward"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "podnetwork:", err)
		os.Exit(1)
	}
}

func run() error {
	link, err := net.InterfaceByName(card)
	if err != nil {
		return fmt.Errorf("looking for %s: %w", card, err)
	}
	number, found := machineNumber(link.HardwareAddr)
	if !found {
		return fmt.Errorf("%s has the MAC address %s, which is none of a machine of a lab", card, link.HardwareAddr)
	}
	content, err := render(number)
	if err != nil {
		return fmt.Errorf("rendering the network of pods: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(configuration), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(configuration, content, 0o644); err != nil {
		return fmt.Errorf("writing the network of pods: %w", err)
	}
	if err := os.WriteFile(forwarding, []byte("1\n"), 0o644); err != nil {
		return fmt.Errorf("letting the kernel forward packets: %w", err)
	}
	fmt.Printf("the pods of this machine have addresses in %s\n", podSubnet(number))
	return nil
}
