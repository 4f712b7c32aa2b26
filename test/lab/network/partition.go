package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// groupName is the prefix of the bridges of a partition.
const groupName = "group"

// Partition splits the network until Heal: groups of machines cannot reach each other. The first group keeps the
// gateway, with the BMCs and all outside. It contains machines that no group names. Powered-off machines keep their
// group. A new partition replaces the old one.
func (s *Switch) Partition(groups ...[]string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	places := map[string]string{}
	var bridges []string
	for i, group := range groups {
		bridge := bridgeName
		if i > 0 {
			bridge = fmt.Sprintf("%s%d", groupName, i)
			bridges = append(bridges, bridge)
		}
		for _, machine := range group {
			if _, twice := places[machine]; twice {
				return fmt.Errorf("machine %s is in two groups of the partition: name it once", machine)
			}
			places[machine] = bridge
		}
	}
	for _, bridge := range bridges {
		// Machines do not send packets to this bridge, so its address does not matter.
		if _, err := s.bridge(bridge, nil); err != nil {
			return fmt.Errorf("partitioning lab %s: %w", s.lab, err)
		}
	}
	s.groups = places
	if err := s.arrange(); err != nil {
		return fmt.Errorf("partitioning lab %s: %w", s.lab, err)
	}
	return nil
}

// Heal ends the partition.
func (s *Switch) Heal() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.groups = map[string]string{}
	if err := s.arrange(); err != nil {
		return fmt.Errorf("healing the partition of lab %s: %w", s.lab, err)
	}
	return nil
}

// arrange moves all ports to their bridges, then removes unused bridges.
func (s *Switch) arrange() error {
	links, err := s.handle.LinkList()
	if err != nil {
		return fmt.Errorf("listing ports: %w", err)
	}
	needed := map[string]bool{}
	for _, bridge := range s.groups {
		needed[bridge] = true
	}
	var empty []netlink.Link
	var failures []error
	for _, link := range links {
		machine, isPort := strings.CutPrefix(link.Attrs().Alias, Name(s.lab)+separator)
		switch {
		case isPort:
			failures = append(failures, s.place(link, machine))
		case strings.HasPrefix(link.Attrs().Name, groupName) && !needed[link.Attrs().Name]:
			empty = append(empty, link)
		}
	}
	for _, bridge := range empty {
		failures = append(failures, s.handle.LinkDel(bridge))
	}
	return errors.Join(failures...)
}

// place moves the port of a machine if required, because a move clears the forwarding table.
func (s *Switch) place(link netlink.Link, machine string) error {
	name := s.groups[machine]
	if name == "" {
		name = bridgeName
	}
	bridge, err := s.handle.LinkByName(name)
	if err != nil {
		return fmt.Errorf("finding bridge %s for machine %s: %w", name, machine, err)
	}
	if link.Attrs().MasterIndex == bridge.Attrs().Index {
		return nil
	}
	if err := s.handle.LinkSetMaster(link, bridge); err != nil {
		return fmt.Errorf("moving machine %s to bridge %s: %w", machine, name, err)
	}
	return nil
}
