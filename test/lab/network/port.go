package network

import (
	"errors"
	"fmt"
	"net"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// card is the name of a machine's network card.
const card = "eth0"

// noLinkLocal disables link-local addresses on the ports of the switch.
const noLinkLocal = 1

// Port is the connection of a machine to the switch.
type Port struct {
	// Machine is the name of the machine.
	Machine string
	// Number is the last part of the machine's addresses, see the address plan. It is unique in the lab.
	Number byte
}

// link returns the name of the switch's end of the cable. A machine's name may be too long for it.
func (p Port) link() string { return fmt.Sprintf("port%d", p.Number) }

func (p Port) check() error {
	if p.Number <= numberOfGateway || p.Number > lastMachine {
		return fmt.Errorf("the number of machine %s is %d: use one from %d to %d",
			p.Machine, p.Number, numberOfGateway+1, lastMachine)
	}
	return CheckMachine(p.Machine)
}

// Plug gives a machine a new namespace with its network card, which is down as at power-on, and connects the card to
// the switch. It deletes an existing namespace of the machine.
func (s *Switch) Plug(port Port) error {
	if err := port.check(); err != nil {
		return err
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if err := s.unplug(port); err != nil {
		return err
	}
	name := MachineName(s.lab, port.Machine)
	if err := create(name); err != nil {
		return err
	}
	if err := s.connect(port, name); err != nil {
		return errors.Join(fmt.Errorf("plugging in machine %s: %w", port.Machine, err), s.unplug(port))
	}
	return nil
}

// connect adds the cable and the route to the pods of the machine.
func (s *Switch) connect(port Port, name string) error {
	namespace, err := netns.GetFromName(name)
	if err != nil {
		return fmt.Errorf("opening network namespace %s: %w", name, err)
	}
	defer func() { _ = namespace.Close() }()
	cable := netlink.NewVeth(netlink.NewLinkAttrs())
	cable.Name = port.link()
	cable.PeerName, cable.PeerHardwareAddr = card, HardwareAddress(port.Number)
	cable.PeerNamespace = netlink.NsFd(namespace)
	if err := s.handle.LinkAdd(cable); err != nil {
		return fmt.Errorf("adding %s: %w", cable.Name, err)
	}
	link, err := s.handle.LinkByName(cable.Name)
	if err != nil {
		return fmt.Errorf("finding %s: %w", cable.Name, err)
	}
	route, neighbour, err := s.podRoute(port)
	if err != nil {
		return err
	}
	steps := []func() error{
		func() error { return s.handle.LinkSetAlias(link, name) },
		func() error { return s.handle.LinkSetIP6AddrGenMode(link, noLinkLocal) },
		func() error { return s.place(link, port.Machine) },
		func() error { return s.handle.LinkSetUp(link) },
		func() error { return s.handle.NeighSet(neighbour) },
		func() error { return s.handle.RouteReplace(route) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("setting up %s: %w", cable.Name, err)
		}
	}
	return nil
}

// podRoute returns the route to the pods of a machine and the neighbour entry of its next hop.
func (s *Switch) podRoute(port Port) (*netlink.Route, *netlink.Neigh, error) {
	bridge, err := s.handle.LinkByName(bridgeName)
	if err != nil {
		return nil, nil, fmt.Errorf("finding bridge %s: %w", bridgeName, err)
	}
	pods, index, hop := PodNetwork(port.Number), bridge.Attrs().Index, nextHop(port.Number).AsSlice()
	return &netlink.Route{
			LinkIndex: index,
			Dst:       &net.IPNet{IP: pods.Addr().AsSlice(), Mask: net.CIDRMask(pods.Bits(), pods.Addr().BitLen())},
			Gw:        hop,
			Flags:     int(netlink.FLAG_ONLINK),
		}, &netlink.Neigh{
			LinkIndex: index, Family: unix.AF_INET, State: unix.NUD_PERMANENT,
			IP: hop, HardwareAddr: HardwareAddress(port.Number),
		}, nil
}

// Unplug removes the cable and the namespace of a machine, if they exist.
func (s *Switch) Unplug(port Port) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.unplug(port)
}

func (s *Switch) unplug(port Port) error {
	link, err := s.handle.LinkByName(port.link())
	if errors.As(err, new(netlink.LinkNotFoundError)) {
		return remove(MachineName(s.lab, port.Machine))
	}
	if err != nil {
		return fmt.Errorf("finding %s of machine %s: %w", port.link(), port.Machine, err)
	}
	// Processes may still use the namespace. Deleting the cable first disconnects them.
	if err := s.handle.LinkDel(link); err != nil {
		return fmt.Errorf("removing %s of machine %s: %w", port.link(), port.Machine, err)
	}
	route, neighbour, err := s.podRoute(port)
	if err != nil {
		return err
	}
	// Deleting a port does not delete the route through the bridge.
	if err := s.handle.RouteDel(route); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("removing the route to the pods of machine %s: %w", port.Machine, err)
	}
	if err := s.handle.NeighDel(neighbour); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("removing the next hop to the pods of machine %s: %w", port.Machine, err)
	}
	return remove(MachineName(s.lab, port.Machine))
}

// LinkDown disconnects the cable of a machine: its network card loses the carrier.
func (s *Switch) LinkDown(port Port) error { return s.withLink(port, s.handle.LinkSetDown) }

// LinkUp reconnects the cable of a machine.
func (s *Switch) LinkUp(port Port) error { return s.withLink(port, s.handle.LinkSetUp) }

func (s *Switch) withLink(port Port, do func(netlink.Link) error) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	link, err := s.handle.LinkByName(port.link())
	if err != nil {
		return fmt.Errorf("finding %s of machine %s, which is plugged in while it is powered on: %w",
			port.link(), port.Machine, err)
	}
	if err := do(link); err != nil {
		return fmt.Errorf("changing %s of machine %s: %w", port.link(), port.Machine, err)
	}
	return nil
}
