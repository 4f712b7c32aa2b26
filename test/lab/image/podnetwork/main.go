// Command podnetwork configures the pod network of a machine of a lab: it writes a CNI configuration for the MAC
// address of the machine, and enables IP forwarding.
//
// The machine with the MAC address 02:22:00:00:00:X has the pods 10.244.X.0/24, and the switch of the lab routes them
// there, so nodes require no routes to each other and no address is translated.
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

	// configuration is the CNI configuration for containerd.
	configuration = "/etc/cni/net.d/10-lab.conflist"

	// forwarding is the kernel setting for forwarding packets between pods and the card.
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
		return fmt.Errorf("%s has the MAC address %s, which is not of a machine of a lab", card, link.HardwareAddr)
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
		return fmt.Errorf("enabling IP forwarding: %w", err)
	}
	fmt.Printf("the pods of this machine have addresses in %s\n", podSubnet(number))
	return nil
}
