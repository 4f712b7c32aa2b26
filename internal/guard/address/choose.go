package address

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// vrfType is a device that routes for its ports. They keep their addresses.
const vrfType = "vrf"

// Link is the input of a choice for one interface.
type Link struct {
	// Name of the interface.
	Name string

	// Up and Loopback are flags of the interface.
	Up, Loopback bool

	// MACs are its current address, its permanent address, and the addresses of its ports.
	MACs []string

	// Addresses that can be a source.
	Addresses []netip.Addr
}

// Choose returns the name of the interface that carries the VIPs. It returns an error with the candidates unless
// exactly one interface fits. A later call may succeed: an interface may come up.
//
// An interface counts if it is up, is no loopback interface, and has an own address of the IP family of a VIP. VIPs
// and link-local, deprecated or tentative addresses do not count as own.
//
//	the settings have   interfaces that count                             the result is
//	macAddresses        one has a listed address                          its name
//	                    a bridge, bond or team, and a port of it          the name of the bridge, bond or team
//	                    has a listed address
//	                    an interface has one, and a VLAN on it            an error, if both count
//	                    none has one, or several have one                 an error
//	interfaceCIDR       one has addresses of its own in the network       its name
//	                    only the VIP is in the network                    an error
//	                    none has one, or several have one                 an error
func Choose(settings vip.NodeSettings, links []Link) (string, error) {
	var counted, fitting []string
	for _, link := range links {
		own := link.own(settings.VirtualIPs)
		if !link.Up || link.Loopback || len(own) == 0 {
			continue
		}
		counted = append(counted, fmt.Sprintf("%s %v %v", link.Name, link.MACs, own))
		if link.fits(settings, own) {
			fitting = append(fitting, link.Name)
		}
	}
	slices.Sort(counted)
	slices.Sort(fitting)
	wanted := "a MAC address of " + strings.Join(settings.MACAddresses, ", ")
	if settings.InterfaceCIDR.IsValid() {
		wanted = "an address of its own in " + settings.InterfaceCIDR.String()
	}
	switch len(fitting) {
	case 0:
		return "", fmt.Errorf("no interface has %s; those that are up and have an address of the family of a VIP "+
			"are %v", wanted, counted)
	case 1:
		return fitting[0], nil
	default:
		return "", fmt.Errorf("interfaces %v have %s; take all but one down, or set spec.ironic.endpoint so that only one "+
			"fits", fitting, wanted)
	}
}

// own returns the addresses of the IP families of the VIPs, without the VIPs.
func (l Link) own(virtual []vip.Address) []netip.Addr {
	return slices.DeleteFunc(slices.Clone(l.Addresses), func(address netip.Addr) bool {
		isVirtual := func(one vip.Address) bool { return one.Address == address }
		isOfFamily := func(one vip.Address) bool { return one.Address.Is4() == address.Is4() }
		return slices.ContainsFunc(virtual, isVirtual) || !slices.ContainsFunc(virtual, isOfFamily)
	})
}

func (l Link) fits(settings vip.NodeSettings, own []netip.Addr) bool {
	if settings.InterfaceCIDR.IsValid() {
		return slices.ContainsFunc(own, settings.InterfaceCIDR.Contains)
	}
	return slices.ContainsFunc(l.MACs, func(mac string) bool { return slices.Contains(settings.MACAddresses, mac) })
}

// Links reads the interfaces of the node.
func Links() ([]Link, error) {
	devices, err := uninterrupted(netlink.LinkList)
	var addresses []netlink.Addr
	if err == nil {
		addresses, err = uninterrupted(func() ([]netlink.Addr, error) { return netlink.AddrList(nil, netlink.FAMILY_ALL) })
	}
	if err != nil {
		return nil, fmt.Errorf("listing the interfaces: %w", err)
	}
	return linksOf(devices, addresses), nil
}

func linksOf(devices []netlink.Link, addresses []netlink.Addr) []Link {
	links := make([]Link, len(devices))
	places := map[int]*Link{}
	for i, device := range devices {
		flags := device.Attrs().Flags
		links[i] = Link{
			Name: device.Attrs().Name, Up: flags&net.FlagUp != 0, Loopback: flags&net.FlagLoopback != 0,
			MACs: macs(device),
		}
		if device.Type() != vrfType {
			places[device.Attrs().Index] = &links[i]
		}
	}
	for _, device := range devices {
		if master := places[device.Attrs().MasterIndex]; master != nil {
			master.MACs = append(master.MACs, macs(device)...)
		}
	}
	for _, address := range addresses {
		read, valid := netip.AddrFromSlice(address.IP)
		usable := valid && address.Flags&unusableFlags == 0 && !read.IsLinkLocalUnicast()
		if link := places[address.LinkIndex]; link != nil && usable {
			link.Addresses = append(link.Addresses, read.Unmap())
		}
	}
	for i := range links {
		slices.Sort(links[i].MACs)
		links[i].MACs = slices.Compact(links[i].MACs)
	}
	return links
}

func macs(device netlink.Link) []string {
	var found []string
	for _, address := range []net.HardwareAddr{device.Attrs().HardwareAddr, device.Attrs().PermHWAddr} {
		if len(address) > 0 {
			found = append(found, address.String())
		}
	}
	return found
}
