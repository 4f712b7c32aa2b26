package rule

import (
	"net/netip"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// apiServerApart refuses one address for the API server and for Ironic: before a move, the VIP is on no node of the
// cluster, and the API server must not depend on Ironic. The function does not resolve names.
func apiServerApart(path *field.Path, spec *infrav1.Metal3ClusterSpec) *field.Error {
	if spec.Ironic == nil {
		return nil
	}
	host, err := netip.ParseAddr(spec.ControlPlaneEndpoint.Host)
	if err != nil || !slices.ContainsFunc(spec.Ironic.Endpoint.VirtualIPs, func(text string) bool {
		address, err := netip.ParseAddr(text)
		return err == nil && address == host
	}) {
		return nil
	}
	return field.Invalid(path.Child("controlPlaneEndpoint", "host"), spec.ControlPlaneEndpoint.Host,
		"is one of ironic.endpoint.virtualIPs, which move with Ironic; give the API server and Ironic different addresses")
}

// apiServerServed refuses an address of the API server that the DHCP server of Ironic gives to a host: dnsmasq does not
// see that it is taken before the first node has it.
func apiServerServed(path *field.Path, spec *infrav1.Metal3ClusterSpec) *field.Error {
	host, err := netip.ParseAddr(spec.ControlPlaneEndpoint.Host)
	if err != nil || spec.Ironic == nil || spec.Ironic.DHCP == nil {
		return nil
	}
	dhcp := spec.Ironic.DHCP
	isIn := func(served infrav1.IronicDHCPRange) bool {
		begin, beginErr := netip.ParseAddr(served.RangeBegin)
		end, endErr := netip.ParseAddr(served.RangeEnd)
		return beginErr == nil && endErr == nil && !host.Less(begin) && !end.Less(host)
	}
	first := infrav1.IronicDHCPRange{RangeBegin: dhcp.RangeBegin, RangeEnd: dhcp.RangeEnd}
	isReserved := func(reserved string) bool { return slices.Contains(reservedAddresses(reserved), host) }
	if !isIn(first) && !slices.ContainsFunc(dhcp.ExtraRanges, isIn) && !slices.ContainsFunc(dhcp.Hosts, isReserved) {
		return nil
	}
	return field.Invalid(path.Child("controlPlaneEndpoint", "host"), spec.ControlPlaneEndpoint.Host,
		"is in a range or a reservation of ironic.dhcp, which would give it to a host; use an address outside of them")
}

// RouterIDChange warns of another virtual router ID for existing nodes. A first router ID is no change: nodes are
// created after that.
func RouterIDChange(path *field.Path, before, after *infrav1.Ironic) Findings {
	if before == nil || after == nil {
		return Findings{}
	}
	was, is := before.VRRP.VirtualRouterID, after.VRRP.VirtualRouterID
	if was == 0 || is == 0 || was == is {
		return Findings{}
	}
	return Warn(path.Child("vrrp", "virtualRouterID"), "changes from %d to %d; nodes with the old ID ignore the "+
		"advertisements of new nodes, and two nodes would hold the VIP: demote the old nodes or replace all of them, and "+
		"set the same ID for the Ironic of the management cluster", was, is)
}

// virtualIPChange warns of a VIP that is removed or replaced. An additional VIP is safe: a new node stays in state
// backup until it receives no advertisements for the first one.
func virtualIPChange(path *field.Path, before, after *infrav1.Ironic) Findings {
	was, is := before.Endpoint.VirtualIPs, after.Endpoint.VirtualIPs
	if !slices.ContainsFunc(was, func(address string) bool { return !slices.Contains(is, address) }) {
		return Findings{}
	}
	return Warn(path, "changes from %v to %v; nodes with the old VIPs ignore the advertisements of new nodes, and two "+
		"Ironics would act on the hosts: demote the old nodes before a new one starts, or replace all of them, and set the "+
		"same VIPs for the Ironic of the management cluster", was, is)
}
