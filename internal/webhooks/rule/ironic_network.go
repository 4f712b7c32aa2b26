package rule

import (
	"fmt"
	"net/netip"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// Limits of keepalived.
const (
	advertisementStep = 10 * time.Millisecond
	maxAdvertisement  = 40 * time.Second
)

// virtualNetwork is one VIP of the endpoint and its network.
type virtualNetwork struct {
	address netip.Addr
	network netip.Prefix
}

// virtualNetworks returns the VIPs of the endpoint with their networks. The result is complete only without errors.
func virtualNetworks(path *field.Path, endpoint infrav1.IronicEndpoint) ([]virtualNetwork, field.ErrorList) {
	addresses, errs := virtualAddresses(path.Child("virtualIPs"), endpoint.VirtualIPs)
	cidrs := path.Child("cidrs")
	if len(endpoint.CIDRs) != len(endpoint.VirtualIPs) {
		return nil, append(errs, field.Invalid(cidrs, endpoint.CIDRs, fmt.Sprintf("has a different length than "+
			"virtualIPs, which has %d; give the network of each address, in the same order", len(endpoint.VirtualIPs))))
	}
	var networks []virtualNetwork
	for i, cidr := range endpoint.CIDRs {
		network, err := netip.ParsePrefix(cidr)
		address := addresses[i]
		switch {
		case err != nil:
			errs = append(errs, field.Invalid(cidrs.Index(i), cidr, "is not a network; write it like 192.0.2.0/24 or "+
				"2001:db8::/64"))
		case address.IsValid() && !network.Masked().Contains(address):
			errs = append(errs, field.Invalid(cidrs.Index(i), cidr, fmt.Sprintf("does not contain %s; give the network of "+
				"each address, in the same order as virtualIPs", address)))
		case address.IsValid() && isReserved(address, network):
			errs = append(errs, field.Invalid(path.Child("virtualIPs").Index(i), endpoint.VirtualIPs[i], fmt.Sprintf(
				"is the network address or the broadcast address of %s; choose another one", network.Masked())))
		default:
			networks = append(networks, virtualNetwork{address, network.Masked()})
		}
	}
	return networks, errs
}

// isReserved returns true for the network and broadcast address of a network. Rendering such an address would fail only
// when a machine waits for it.
func isReserved(address netip.Addr, network netip.Prefix) bool {
	_, err := vip.NewAddress(address.String(), network.String())
	return err != nil
}

// virtualAddresses returns one address for each entry. An incorrect entry is the zero address.
func virtualAddresses(path *field.Path, values []string) ([]netip.Addr, field.ErrorList) {
	var errs field.ErrorList
	if len(values) == 0 {
		errs = append(errs, field.Required(path, "give the address that Ironic answers on"))
	}
	addresses := make([]netip.Addr, len(values))
	first := map[string]string{}
	for i, value := range values {
		address, err := nodeAddress(path.Index(i), value)
		if err == nil && isLinkLocal(address) {
			err = field.Invalid(path.Index(i), value, "works on one interface only and not in URLs; "+
				"use an address that is not link-local")
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		if other, second := first[Family(address)]; second {
			errs = append(errs, field.Invalid(path.Index(i), value, fmt.Sprintf("is a second %s address beside %s; "+
				"give at most one of each family", Family(address), other)))
			continue
		}
		first[Family(address)] = value
		addresses[i] = address
	}
	return addresses, errs
}

// isLinkLocal returns true for an IPv6 address that is valid on one interface only.
func isLinkLocal(address netip.Addr) bool { return address.Is6() && address.IsLinkLocalUnicast() }

// inFamily returns the network of the address family.
func inFamily(networks []virtualNetwork, address netip.Addr) (virtualNetwork, bool) {
	for _, candidate := range networks {
		if candidate.address.Is4() == address.Is4() {
			return candidate, true
		}
	}
	return virtualNetwork{}, false
}

func advertisement(path *field.Path, vrrp infrav1.VRRP) field.ErrorList {
	if vrrp.AdvertisementInterval == nil {
		return nil
	}
	interval := vrrp.AdvertisementInterval.Duration
	if interval >= advertisementStep && interval <= maxAdvertisement && interval%advertisementStep == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path.Child("advertisementInterval"), interval.String(), fmt.Sprintf(
		"cannot be expressed in VRRP; use a multiple of %s up to %s", advertisementStep, maxAdvertisement))}
}

// minMembers is the minimum number of peers in mode Unicast: a node omits itself from the list.
const minMembers = 2

// peers validates the receivers of advertisements. In mode Unicast each family requires two: the guard of a node
// without a peer in a family does not start.
func peers(path *field.Path, vrrp infrav1.VRRP, networks []virtualNetwork) field.ErrorList {
	var errs field.ErrorList
	list := path.Child("peers")
	heard := map[string]int{}
	seen := map[netip.Addr]bool{}
	for i, value := range vrrp.Peers {
		peer, err := peerAddress(list.Index(i), value, networks)
		if err == nil && seen[peer] {
			err = field.Duplicate(list.Index(i), value)
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		seen[peer] = true
		heard[Family(peer)]++
	}
	if effectiveMode(vrrp) != infrav1.VRRPUnicast || len(errs) > 0 {
		return errs
	}
	for _, virtual := range networks {
		if family := Family(virtual.address); heard[family] < minMembers {
			errs = append(errs, field.Required(list, fmt.Sprintf("mode Unicast requires the %s addresses of all nodes that may "+
				"hold %s, at least %d, and there are %d; list them, or set mode to Multicast",
				family, virtual.address, minMembers, heard[family])))
		}
	}
	return errs
}

func peerAddress(path *field.Path, value string, networks []virtualNetwork) (netip.Addr, *field.Error) {
	peer, err := nodeAddress(path, value)
	if err != nil {
		return peer, err
	}
	virtual, found := inFamily(networks, peer)
	switch {
	case !found:
		return peer, field.Invalid(path, value, fmt.Sprintf("is an %s address and none of the virtualIPs is; "+
			"list addresses of the same family as the virtualIPs", Family(peer)))
	case isLinkLocal(peer):
		return peer, field.Invalid(path, value, "works on one interface only, and the nodes cannot be rendered with it; "+
			"list the global addresses of the nodes")
	case virtual.address == peer:
		return peer, field.Invalid(path, value, "is one of the virtualIPs; list the nodes' own addresses")
	default:
		return peer, nil
	}
}
