package hostdata_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
)

// sourceCases returns a case for each source of each MAC address, address and gateway, and for each enumerated type.
func sourceCases() map[string]networkDataCase {
	cases := map[string]networkDataCase{}
	for _, part := range []map[string]networkDataCase{typeCases(), macCases(), addressCases(), routeCases()} {
		maps.Copy(cases, part)
	}
	return cases
}

// typeCases returns cases for each type of interface, each mode of a bond and each hash policy.
func typeCases() map[string]networkDataCase {
	links := func(templates, wants []string, list string) networkDataCase {
		return networkDataCase{
			template: "links: {" + list + ": [" + strings.Join(templates, ", ") + "]}",
			want:     "{links: [" + strings.Join(wants, ", ") + "], networks: [], services: []}",
		}
	}
	var templates, wants []string
	for i, kind := range []string{"bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif", "phy"} {
		templates = append(templates, fmt.Sprintf("{type: %s, id: l%d, mtu: 1500}", kind, i))
		wants = append(wants, fmt.Sprintf("{type: %s, id: l%d, mtu: 1500}", kind, i))
	}
	cases := map[string]networkDataCase{"each type of interface": links(templates, wants, "ethernets")}
	templates, wants = nil, nil
	for i, mode := range []string{
		"balance-rr", "active-backup", "balance-xor", "broadcast", "balance-tlb", "balance-alb", "802.3ad",
	} {
		policy := []string{"layer2", "layer3+4", "layer2+3"}[i%3]
		templates = append(templates, fmt.Sprintf(
			"{id: l%d, mtu: 1500, bondMode: %s, bondXmitHashPolicy: %s, bondLinks: [nic0]}", i, mode, policy))
		wants = append(wants, fmt.Sprintf(
			"{type: bond, id: l%d, mtu: 1500, bond_mode: %s, bond_xmit_hash_policy: %s, bond_links: [nic0]}", i, mode, policy))
	}
	cases["each mode and hash policy of a bond"] = links(templates, wants, "bonds")
	return cases
}

// macCases returns cases for the MAC address of each kind of link from each source.
func macCases() map[string]networkDataCase {
	sources := map[string]string{
		`string: "52:54:00:00:00:99"`:                              "52:54:00:00:00:99",
		"fromHostInterface: eth1":                                  "52:54:00:00:00:02",
		"fromAnnotation: {object: machine, annotation: mac}":       "52:54:00:00:00:0a",
		"fromAnnotation: {object: metal3machine, annotation: mac}": "52:54:00:00:00:0b",
		"fromAnnotation: {object: baremetalhost, annotation: mac}": "52:54:00:00:00:0c",
	}
	cases := map[string]networkDataCase{}
	for list, link := range map[string]struct{ template, want string }{
		"ethernets": {"type: phy", `type: phy, ethernet_mac_address: "%s"`},
		"bonds": {
			"bondMode: 802.3ad, bondLinks: [nic0]",
			`type: bond, bond_mode: 802.3ad, bond_xmit_hash_policy: "", bond_links: [nic0], ethernet_mac_address: "%s"`,
		},
		"vlans": {"vlanID: 4096, vlanLink: nic0", `type: vlan, vlan_id: 4096, vlan_link: nic0, vlan_mac_address: "%s"`},
	} {
		for source, mac := range sources {
			cases["the MAC of "+list+" by "+source] = networkDataCase{
				template: fmt.Sprintf("links: {%s: [{id: l, mtu: 68, %s, macAddress: {%s}}]}", list, link.template, source),
				want:     "{links: [{id: l, mtu: 68, " + fmt.Sprintf(link.want, mac) + "}], networks: [], services: []}",
			}
		}
	}
	return cases
}

// ipFamily has the values of one IP family for the tables of addresses and routes.
type ipFamily struct {
	// name of the family, of its pools, and of the annotation that names a pool.
	name, pool string
	// address, mask and gateway of the pool of Metal3, and of that of a provider of the IPAM contract.
	metal3, contract [3]string
	// network, prefix and mask of a route, a gateway and a DNS server.
	network, prefix, mask, gateway, dns string
	// poolDNS are the DNS servers of the pool of Metal3.
	poolDNS []string
}

func families() []ipFamily {
	return []ipFamily{
		{
			name: "ipv4", pool: "pool4", metal3: [3]string{"192.168.0.14", "255.255.255.0", "192.168.0.1"},
			contract: [3]string{"10.0.0.14", "255.255.0.0", "10.0.0.1"},
			network:  "172.16.0.0", prefix: "12", mask: "255.240.0.0", gateway: "192.168.0.254", dns: "1.1.1.1",
			poolDNS: []string{"8.8.8.8", "8.8.4.4"},
		},
		{
			name: "ipv6", pool: "pool6", metal3: [3]string{"2001:db8::14", "ffff:ffff:ffff:ffff:ffff:ffff::", "2001:db8::1"},
			contract: [3]string{"fd00::14", "ffff:ffff:ffff:ffff::", "fd00::1"},
			network:  "2001:db8:9::", prefix: "48", mask: "ffff:ffff:ffff::", gateway: "2001:db8::fe", dns: "2620:fe::fe",
			poolDNS: []string{"2001:4860:4860::8888"},
		},
	}
}

// poolSources returns the fields that name a pool, and whether it is that of a provider of the IPAM contract.
func (f ipFamily) poolSources(nameField string) map[string]bool {
	return map[string]bool{
		nameField + ": " + f.pool:             false,
		"fromPoolRef: {name: " + f.pool + "}": false,
		"fromPoolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: " + f.pool + "}": true,
		"fromPoolAnnotation: {object: machine, annotation: " + f.name + "}":                           false,
		"fromPoolAnnotation: {object: metal3machine, annotation: " + f.name + "}":                     false,
		"fromPoolAnnotation: {object: baremetalhost, annotation: " + f.name + "}":                     false,
	}
}

// addressCases returns cases for a static address of each family from each source.
func addressCases() map[string]networkDataCase {
	cases := map[string]networkDataCase{}
	for _, family := range families() {
		for source, isContract := range family.poolSources("ipAddressFromIPPool") {
			from := family.metal3
			if isContract {
				from = family.contract
			}
			cases["an address of "+family.name+" by "+source] = networkDataCase{
				template: fmt.Sprintf("networks: {%s: [{id: net, link: l, %s}]}", family.name, source),
				want: fmt.Sprintf(`{links: [], services: [], networks: [{type: %s, id: net, link: l, ip_address: "%s", netmask: "%s", routes: []}]}`,
					family.name, from[0], from[1]),
			}
		}
	}
	return cases
}

// routeCases returns cases for a route of each kind of network, with its gateway from each source and DNS servers.
func routeCases() map[string]networkDataCase {
	cases := map[string]networkDataCase{}
	for _, family := range families() {
		sources := map[string]string{`string: "` + family.gateway + `"`: family.gateway}
		for source, isContract := range family.poolSources("fromIPPool") {
			sources[source] = family.metal3[2]
			if isContract {
				sources[source] = family.contract[2]
			}
		}
		kinds := map[string]string{family.name: family.name, family.name + "DHCP": family.name + "_dhcp"}
		if family.name == "ipv6" {
			kinds["ipv6SLAAC"] = "ipv6_slaac"
		}
		for list, kind := range kinds {
			own, rendered := "", ""
			if list == family.name {
				own = ", ipAddressFromIPPool: " + family.pool
				rendered = fmt.Sprintf(`, ip_address: "%s", netmask: "%s"`, family.metal3[0], family.metal3[1])
			}
			for source, gateway := range sources {
				cases["a route of "+list+" by "+source] = networkDataCase{
					template: fmt.Sprintf(`networks: {%s: [{id: net, link: l%s, routes: [{network: "%s", prefix: %s, gateway: {%s}, services: {dns: ["%s"], dnsFromIPPool: %s}}]}]}`,
						list, own, family.network, family.prefix, source, family.dns, family.pool),
					want: fmt.Sprintf(`{links: [], services: [], networks: [{type: %s, id: net, link: l%s, routes: [{network: "%s", netmask: "%s", gateway: "%s", services: [%s]}]}]}`,
						kind, rendered, family.network, family.mask, gateway, servers(append([]string{family.dns}, family.poolDNS...))),
				}
			}
		}
	}
	return cases
}

func servers(addresses []string) string {
	var all []string
	for _, address := range addresses {
		all = append(all, `{type: dns, address: "`+address+`"}`)
	}
	return strings.Join(all, ", ")
}

func TestNetworkDataSources(t *testing.T) {
	for name, tc := range sourceCases() {
		t.Run(name, func(t *testing.T) { testNetworkData(t, tc) })
	}
}
