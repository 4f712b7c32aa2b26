package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// card is the network card of the machine.
type card struct {
	mac     string
	number  byte
	address netip.Addr
}

// networkData has the addresses of a network_data.json.
type networkData struct {
	Networks []struct {
		Address string `json:"ip_address"`
		Netmask string `json:"netmask"`
		Routes  []struct {
			Gateway string `json:"gateway"`
		} `json:"routes"`
	} `json:"networks"`
}

// bringUp adds the addresses of a network_data.json to the only card of the machine. Without the file it adds those of
// a DHCP server of the lab.
func bringUp(data []byte) (card, error) {
	link, err := netlink.LinkByName("eth0")
	if err != nil {
		return card{}, fmt.Errorf("finding eth0: %w", err)
	}
	mac := link.Attrs().HardwareAddr
	found := card{mac: mac.String(), number: mac[len(mac)-1]}
	loopback, err := netlink.LinkByName("lo")
	if err != nil {
		return card{}, err
	}
	if err := errors.Join(netlink.LinkSetUp(loopback), netlink.LinkSetUp(link)); err != nil {
		return card{}, err
	}
	addresses, gateways, err := plan(data, found.number)
	if err != nil {
		return card{}, err
	}
	for _, address := range addresses {
		if err := add(link, address); err != nil {
			return card{}, err
		}
	}
	for _, gateway := range gateways {
		route := &netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.AsSlice()}
		if err := netlink.RouteReplace(route); err != nil {
			return card{}, fmt.Errorf("routing through %s: %w", gateway, err)
		}
	}
	found.address = addresses[0].Addr()
	return found, nil
}

// add adds an address without duplicate address detection: addresses of a lab are unique.
func add(link netlink.Link, address netip.Prefix) error {
	given := &netlink.Addr{IPNet: &net.IPNet{
		IP: address.Addr().AsSlice(), Mask: net.CIDRMask(address.Bits(), address.Addr().BitLen()),
	}}
	if address.Addr().Is6() {
		const noDetection = 0x02
		given.Flags = noDetection
	}
	if err := netlink.AddrReplace(link, given); err != nil {
		return fmt.Errorf("adding address %s: %w", address, err)
	}
	return nil
}

// plan returns the addresses and gateways of the card.
func plan(data []byte, number byte) (addresses []netip.Prefix, gateways []netip.Addr, err error) {
	if len(data) == 0 {
		bits := netip.MustParsePrefix(network.Provisioning4).Bits()
		return []netip.Prefix{netip.PrefixFrom(network.Address4(number), bits)},
			[]netip.Addr{netip.MustParseAddr(network.Gateway4)}, nil
	}
	var read networkData
	if err := json.Unmarshal(data, &read); err != nil {
		return nil, nil, fmt.Errorf("reading the network data of the medium: %w", err)
	}
	for _, one := range read.Networks {
		address, err := netip.ParseAddr(one.Address)
		if err != nil {
			return nil, nil, fmt.Errorf("reading the network data of the medium: %w", err)
		}
		mask := net.ParseIP(one.Netmask)
		if v4 := mask.To4(); v4 != nil {
			mask = v4
		}
		bits, _ := net.IPMask(mask).Size()
		addresses = append(addresses, netip.PrefixFrom(address, bits))
		for _, route := range one.Routes {
			gateway, err := netip.ParseAddr(route.Gateway)
			if err != nil {
				return nil, nil, fmt.Errorf("reading the network data of the medium: %w", err)
			}
			gateways = append(gateways, gateway)
		}
	}
	if len(addresses) == 0 {
		return nil, nil, errors.New("the network data of the medium has no address")
	}
	return addresses, gateways, nil
}
