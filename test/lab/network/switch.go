package network

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// bridgeName is the bridge that holds the gateway.
const bridgeName = "br0"

// Switch connects the machines of a lab. Its methods may be called at the same time.
type Switch struct {
	lab    string
	handle *netlink.Handle

	// mutex guards what is below, and makes changes of ports one after the other.
	mutex sync.Mutex
	// groups says on which bridge the machines of a partition are; the others are on the gateway's.
	groups map[string]string
}

// Create makes the switch of a lab, or completes what is there. It needs root.
func Create(lab string) (*Switch, error) {
	if err := CheckLab(lab); err != nil {
		return nil, err
	}
	if err := create(Name(lab)); err != nil {
		return nil, err
	}
	if err := Within(Name(lab), route); err != nil {
		return nil, fmt.Errorf("turning on forwarding in the switch of lab %s: %w", lab, err)
	}
	namespace, err := netns.GetFromName(Name(lab))
	if err != nil {
		return nil, fmt.Errorf("opening the switch of lab %s: %w", lab, err)
	}
	defer func() { _ = namespace.Close() }()
	handle, err := netlink.NewHandleAt(namespace, unix.NETLINK_ROUTE)
	if err != nil {
		return nil, fmt.Errorf("talking to the switch of lab %s: %w", lab, err)
	}
	created := &Switch{lab: lab, handle: handle, groups: map[string]string{}}
	if err := created.setUp(); err != nil {
		handle.Close()
		return nil, fmt.Errorf("setting up the switch of lab %s: %w", lab, err)
	}
	return created, nil
}

// Lab is the name of the lab that the switch belongs to.
func (s *Switch) Lab() string { return s.lab }

// Delete removes the switch, the machines' namespaces and all cables. Connections that were opened through it break.
func (s *Switch) Delete() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.handle.Close()
	return Sweep(s.lab)
}

// setUp makes the bridge and gives it the gateway's addresses. A new bridge runs no spanning tree, and then a port
// forwards at once.
func (s *Switch) setUp() error {
	loopback, err := s.handle.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("finding the loopback interface: %w", err)
	}
	if err := s.handle.LinkSetUp(loopback); err != nil {
		return fmt.Errorf("turning on the loopback interface: %w", err)
	}
	bridge, err := s.bridge(bridgeName, HardwareAddress(numberOfGateway))
	if err != nil {
		return err
	}
	addresses := []*netlink.Addr{
		{IPNet: on(Provisioning4, netip.MustParseAddr(Gateway4))},
		// Addresses of a lab are unique, and duplicate address detection would keep it unusable for seconds.
		{IPNet: on(Provisioning6, netip.MustParseAddr(Gateway6)), Flags: unix.IFA_F_NODAD},
	}
	for _, address := range addresses {
		if err := s.handle.AddrReplace(bridge, address); err != nil {
			return fmt.Errorf("giving %s to the gateway: %w", address.IPNet, err)
		}
	}
	return nil
}

// bridge makes a bridge that forwards all multicast, which is how neighbours are found in IPv6 and what VRRP sends. Its
// address is fixed: left to itself a bridge takes one of its ports' and changes it when that port goes.
func (s *Switch) bridge(name string, address net.HardwareAddr) (netlink.Link, error) {
	snooping := false
	bridge := &netlink.Bridge{LinkAttrs: netlink.NewLinkAttrs(), MulticastSnooping: &snooping}
	bridge.Name, bridge.HardwareAddr = name, address
	if err := s.handle.LinkAdd(bridge); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("adding bridge %s: %w", name, err)
	}
	link, err := s.handle.LinkByName(name)
	if err != nil {
		return nil, fmt.Errorf("finding bridge %s: %w", name, err)
	}
	if err := s.handle.LinkSetUp(link); err != nil {
		return nil, fmt.Errorf("turning on bridge %s: %w", name, err)
	}
	return link, nil
}

// route makes a router of the namespace that it is called in.
func route() error {
	settings := map[string]string{
		"net/ipv4/ip_forward":          "1",
		"net/ipv6/conf/all/forwarding": "1",
		// A virtual address moves between machines, so an answer may leave on another way than the question came.
		"net/ipv4/conf/all/rp_filter":     "0",
		"net/ipv4/conf/default/rp_filter": "0",
		// Pods of two machines talk through the switch. The hint to talk directly would outlive the machine it names.
		"net/ipv4/conf/all/send_redirects":     "0",
		"net/ipv4/conf/default/send_redirects": "0",
	}
	for name, value := range settings {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0o644); err != nil {
			return fmt.Errorf("setting %s to %s: %w", strings.ReplaceAll(name, "/", "."), value, err)
		}
	}
	return nil
}
