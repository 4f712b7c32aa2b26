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

// Switch connects the machines of a lab. It is safe for concurrent use.
type Switch struct {
	lab    string
	handle *netlink.Handle

	// mutex guards the fields below and serialises changes of ports.
	mutex sync.Mutex
	// groups maps a machine of a partition to its bridge. Other machines are on the gateway's bridge.
	groups map[string]string
}

// Create creates the switch of a lab, or completes an existing one. It requires root.
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
		return nil, fmt.Errorf("opening netlink in the switch of lab %s: %w", lab, err)
	}
	created := &Switch{lab: lab, handle: handle, groups: map[string]string{}}
	if err := created.setUp(); err != nil {
		handle.Close()
		return nil, fmt.Errorf("setting up the switch of lab %s: %w", lab, err)
	}
	return created, nil
}

// Lab returns the name of the lab.
func (s *Switch) Lab() string { return s.lab }

// Delete deletes the switch, the namespaces of the machines and all cables. It breaks connections through the switch.
func (s *Switch) Delete() error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.handle.Close()
	return Sweep(s.lab)
}

// setUp creates the bridge and adds the gateway's addresses. The bridge runs no spanning tree, so a port forwards
// immediately.
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
		// Duplicate address detection would delay the address for seconds. Addresses of a lab are unique.
		{IPNet: on(Provisioning6, netip.MustParseAddr(Gateway6)), Flags: unix.IFA_F_NODAD},
	}
	for _, address := range addresses {
		if err := s.handle.AddrReplace(bridge, address); err != nil {
			return fmt.Errorf("adding %s to the gateway: %w", address.IPNet, err)
		}
	}
	return nil
}

// bridge creates a bridge that forwards all multicast, which IPv6 neighbour discovery and VRRP require. The bridge has
// a fixed MAC address: by default a bridge uses that of one of its ports, and changes it when that port is deleted.
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

// route makes the current namespace a router.
func route() error {
	settings := map[string]string{
		"net/ipv4/ip_forward":          "1",
		"net/ipv6/conf/all/forwarding": "1",
		// A VIP moves between machines, so an answer may leave by another path than the request.
		"net/ipv4/conf/all/rp_filter":     "0",
		"net/ipv4/conf/default/rp_filter": "0",
		// Pods of two machines communicate through the switch. A redirect would outlive the machine it names.
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
