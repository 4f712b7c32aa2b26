package hostdata

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// maxPoolServers is the limit of DNS servers from pools in the network-data, counted again for each route.
const maxPoolServers = 4096

// document is one object of the network-data.
type document = map[string]any

// NetworkData renders the network-data in the format of OpenStack's network_data.json, as YAML.
func NetworkData(data *infrav1.NetworkData, subject Subject, addresses map[Pool]Address) ([]byte, error) {
	n := &network{subject: subject, addresses: addresses}
	path := field.NewPath("spec", "networkData")
	rendered := document{
		"links":    n.links(path.Child("links"), data.Links),
		"networks": n.networks(path.Child("networks"), data.Networks),
		"services": n.services(path.Child("services"), data.Services),
	}
	if err := n.problems.ToAggregate(); err != nil {
		return nil, err
	}
	return yaml.Marshal(rendered)
}

// DuplicateIDs returns a message about the IDs that several entries of a list of the network-data have. Empty if there
// are none.
func DuplicateIDs(data *infrav1.NetworkData) string {
	if data == nil {
		return ""
	}
	static := func(entry infrav1.StaticNetwork) string { return entry.ID }
	dynamic := func(entry infrav1.DynamicNetwork) string { return entry.ID }
	sentences := slices.Concat(
		repeated("links.ethernets", data.Links.Ethernets, func(entry infrav1.EthernetLink) string { return entry.ID }),
		repeated("links.bonds", data.Links.Bonds, func(entry infrav1.BondLink) string { return entry.ID }),
		repeated("links.vlans", data.Links.Vlans, func(entry infrav1.VlanLink) string { return entry.ID }),
		repeated("networks.ipv4", data.Networks.IPv4, static),
		repeated("networks.ipv6", data.Networks.IPv6, static),
		repeated("networks.ipv4DHCP", data.Networks.IPv4DHCP, dynamic),
		repeated("networks.ipv6DHCP", data.Networks.IPv6DHCP, dynamic),
		repeated("networks.ipv6SLAAC", data.Networks.IPv6SLAAC, dynamic),
	)
	if len(sentences) == 0 {
		return ""
	}
	return strings.Join(sentences, " ") + " Programs that read network data expect each ID once. " +
		replaceTemplate("spec.networkData", "a Metal3DataTemplate with different IDs")
}

// replaceTemplate returns the remedy for an immutable field of a Metal3DataTemplate.
func replaceTemplate(field, by string) string {
	return field + " is immutable: create " + by + ", and name it in spec.template.spec.dataTemplate of a new " +
		"Metal3MachineTemplate."
}

// repeated returns a sentence for each ID that several entries have.
func repeated[T any](list string, entries []T, idOf func(T) string) []string {
	count := map[string]int{}
	for _, entry := range entries {
		count[idOf(entry)]++
	}
	var sentences []string
	for _, id := range slices.Sorted(maps.Keys(count)) {
		if count[id] > 1 {
			sentences = append(sentences, fmt.Sprintf("%d entries of spec.networkData.%s have the id %s, and all are rendered.",
				count[id], list, id))
		}
	}
	return sentences
}

// network renders one network-data and collects the errors.
type network struct {
	subject   Subject
	addresses map[Pool]Address
	problems  field.ErrorList

	// poolServers counts the DNS servers from pools.
	poolServers int
}

func (n *network) report(err *field.Error) { n.problems = append(n.problems, err) }

// family has the properties of one IP version.
type family struct {
	name  string
	bits  int
	holds func(netip.Addr) bool
}

func ipv4() family { return family{"IPv4", 8 * net.IPv4len, netip.Addr.Is4} }

func ipv6() family { return family{"IPv6", 8 * net.IPv6len, netip.Addr.Is6} }

// mask returns the network mask for a prefix length: 255.255.255.0 or ffff:ffff:ffff:ffff::.
func (f family) mask(prefix int32) (string, bool) {
	mask := net.CIDRMask(int(prefix), f.bits)
	return net.IP(mask).String(), mask != nil
}

// parses returns true for an address of the family.
func (f family) parses(value string) bool {
	address, err := netip.ParseAddr(value)
	return err == nil && f.holds(address)
}

func (n *network) networks(path *field.Path, networks infrav1.NetworkAddresses) []document {
	all := []document{}
	all = append(all, n.static(path.Child("ipv4"), networks.IPv4, "ipv4", ipv4())...)
	all = append(all, n.static(path.Child("ipv6"), networks.IPv6, "ipv6", ipv6())...)
	all = append(all, n.dynamic(path.Child("ipv4DHCP"), networks.IPv4DHCP, "ipv4_dhcp", ipv4())...)
	all = append(all, n.dynamic(path.Child("ipv6DHCP"), networks.IPv6DHCP, "ipv6_dhcp", ipv6())...)
	return append(all, n.dynamic(path.Child("ipv6SLAAC"), networks.IPv6SLAAC, "ipv6_slaac", ipv6())...)
}

func (n *network) static(path *field.Path, networks []infrav1.StaticNetwork, kind string, of family) []document {
	var all []document
	for i := range networks {
		network, at := &networks[i], path.Key(networks[i].ID)
		address, netmask := n.address(at, addressSource(network), of)
		all = append(all, document{
			"type": kind, "id": network.ID, "link": network.Link,
			"ip_address": address, "netmask": netmask,
			"routes": n.routes(at.Child("routes"), network.Routes, of),
		})
	}
	return all
}

func (n *network) dynamic(path *field.Path, networks []infrav1.DynamicNetwork, kind string, of family) []document {
	var all []document
	for i := range networks {
		network := &networks[i]
		all = append(all, document{
			"type": kind, "id": network.ID, "link": network.Link,
			"routes": n.routes(path.Key(network.ID).Child("routes"), network.Routes, of),
		})
	}
	return all
}

// address returns the address of a static network and its mask.
func (n *network) address(path *field.Path, from source, of family) (address, netmask string) {
	given, pool, at := n.given(path, from)
	if given == nil {
		if pool == nil && at != nil {
			n.report(field.Required(path.Child("fromPoolRef", "name"),
				"name the pool of the address in a new Metal3DataTemplate"))
		}
		return "", ""
	}
	n.inFamily(at, *pool, "address", given.Address, of)
	if given.Prefix == nil {
		n.report(noPrefix(at, pool.Name))
		return given.Address, ""
	}
	mask, valid := of.mask(*given.Prefix)
	if !valid {
		n.report(field.Invalid(at, pool.Name, fmt.Sprintf("allocated the prefix %d, which is not one of %s; correct the "+
			"pool%s", *given.Prefix, of.name, anotherAddress)))
	}
	return given.Address, mask
}

// given returns the address of the pool of a source, the pool, and the field that names it. The address is nil if there
// is none. The field is nil if the error is recorded already.
func (n *network) given(path *field.Path, from source) (*Address, *Pool, *field.Path) {
	pool, at, err := from.pool(path, n.subject)
	if err != nil {
		n.report(err)
		return nil, nil, nil
	}
	if pool == nil {
		return nil, nil, at
	}
	address, found := n.addresses[*pool]
	if !found {
		n.report(noAddress(at, pool.Name))
		return nil, pool, nil
	}
	return &address, pool, at
}

func (n *network) inFamily(path *field.Path, pool Pool, what, value string, of family) {
	if !of.parses(value) {
		n.report(field.Invalid(path, pool.Name, "allocated the "+what+" "+value+", which is not of "+of.name+
			"; use a pool of "+of.name+" addresses in a new Metal3DataTemplate"))
	}
}

func (n *network) routes(path *field.Path, routes []infrav1.NetworkRoute, of family) []document {
	all := []document{}
	for i := range routes {
		route, at := &routes[i], path.Index(i)
		mask, valid := of.mask(ptr.Deref(route.Prefix, 0))
		if !valid {
			n.report(field.Invalid(at.Child("prefix"), *route.Prefix, fmt.Sprintf(
				"is not the length of an %s prefix; use 0 to %d in a new Metal3DataTemplate", of.name, of.bits)))
		}
		if !of.parses(route.Network) {
			n.report(field.Invalid(at.Child("network"), route.Network, "is not an "+of.name+
				" address; use the network address of the destination in a new Metal3DataTemplate"))
		}
		all = append(all, document{
			"network": route.Network, "netmask": mask,
			"gateway":  n.gateway(at.Child("gateway"), &route.Gateway, of),
			"services": n.services(at.Child("services"), route.Services),
		})
	}
	return all
}

// gateway returns the gateway of a route. Empty if neither a field nor the pool has one.
func (n *network) gateway(path *field.Path, gateway *infrav1.NetworkGateway, of family) string {
	if gateway.String != "" {
		if !of.parses(gateway.String) {
			n.report(field.Invalid(path.Child("string"), gateway.String, "is not an "+of.name+
				" address; use the address of the gateway in a new Metal3DataTemplate"))
		}
		return gateway.String
	}
	given, pool, at := n.given(path, gatewaySource(gateway))
	if given == nil || given.Gateway == "" {
		return ""
	}
	n.inFamily(at, *pool, "gateway", given.Gateway, of)
	return given.Gateway
}

// services returns the DNS servers: those in the list, then those of the pool. It omits and reports those of the pool
// over the limit: their product with the routes of a template could exhaust the memory.
func (n *network) services(path *field.Path, services infrav1.NetworkServices) []document {
	all := []document{}
	add := func(address string) { all = append(all, document{"type": "dns", "address": address}) }
	for _, address := range services.DNS {
		add(address)
	}
	if services.DNSFromIPPool == "" {
		return all
	}
	at := path.Child("dnsFromIPPool")
	given, found := n.addresses[metal3Pool(services.DNSFromIPPool)]
	if !found {
		n.report(noAddress(at, services.DNSFromIPPool))
	}
	before := n.poolServers
	if n.poolServers += len(given.DNSServers); n.poolServers > maxPoolServers {
		if before <= maxPoolServers {
			n.report(field.Invalid(at, services.DNSFromIPPool, fmt.Sprintf("adds %d DNS servers to the %d from other uses of "+
				"pools, the limit is %d; use it in fewer routes of a new Metal3DataTemplate, or shorten spec.dnsServers of the "+
				"pool%s", len(given.DNSServers), before, maxPoolServers, anotherAddress)))
		}
		return all
	}
	for _, address := range given.DNSServers {
		add(address)
	}
	return all
}
