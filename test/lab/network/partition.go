package network

import (
	"errors"
	"fmt"
	"strings"

	"github.com/vishvananda/netlink"
)

// groupName begins the names of the bridges that a partition adds.
const groupName = "group"

// Partition splits the network until Heal: nothing gets from one group of machines to another, in no protocol. The
// first group keeps the gateway, and with it the BMCs and everything outside; machines that no group names belong to
// it. Machines that are powered off keep their place for when they come back. A new partition replaces the old one.
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
		// No machine talks to this bridge itself, so its address does not matter.
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

// arrange puts all ports where they belong, then removes unused bridges.
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

// place moves the port of a machine unless it is where it belongs, because moving loses what the bridge has learned.
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
