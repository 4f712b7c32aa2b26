// Command podnetwork gives a machine of a lab its pod network: it waits for the address of the machine, writes the CNI
// configuration that follows from it, and lets the kernel forward packets.
//
// The machine 172.22.0.X has the pods 10.244.X.0/24 and the switch of the lab routes them there, so nodes need no
// routes to one another and no address is translated. The trade-off: the file is right for a lab and nothing else.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	// card is the name of the only network card of a machine.
	card = "eth0"

	// configuration is where containerd looks for the network of pods.
	configuration = "/etc/cni/net.d/10-lab.conflist"

	// forwarding is the switch of the kernel for packets between pods and the card.
	forwarding = "/proc/sys/net/ipv4/ip_forward"

	// limit is how long to wait for an address. cloud-init has set it by the time this runs, if it was given one.
	limit = 60 * time.Second

	// pollEvery is how often to look for the address.
	pollEvery = 100 * time.Millisecond
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "podnetwork:", err)
		os.Exit(1)
	}
}

func run() error {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	number, err := waitForNumber(ctx)
	if err != nil {
		return err
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

func waitForNumber(ctx context.Context) (byte, error) {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		number, err := currentNumber()
		if err == nil {
			return number, nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%w after %s; look at the network data of the machine's config drive", err, limit)
		case <-ticker.C:
		}
	}
}

func currentNumber() (byte, error) {
	link, err := net.InterfaceByName(card)
	if err != nil {
		return 0, fmt.Errorf("looking for %s: %w", card, err)
	}
	addresses, err := link.Addrs()
	if err != nil {
		return 0, fmt.Errorf("reading the addresses of %s: %w", card, err)
	}
	if number, found := machineNumber(addresses); found {
		return number, nil
	}
	return 0, errors.New(card + " has no address in " + provisioning.String())
}
