package hostdata_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// networkDataCase is a spec.networkData and the expected network-data.
type networkDataCase struct {
	template string
	want     string
	problems []string
}

func networkDataCases() map[string]networkDataCase {
	links := func(content string) string { return "{links: [" + content + "], networks: [], services: []}" }
	networks := func(content string) string { return "{links: [], networks: [" + content + "], services: []}" }
	value := func(size int) string { return strings.Repeat("a", size-len(`""`)) }
	return map[string]networkDataCase{
		"nothing": {template: "{}", want: links("")},

		"a physical interface": {
			template: "links: {ethernets: [{type: phy, id: nic0, mtu: 1500}]}", want: links("{type: phy, id: nic0, mtu: 1500}"),
		},
		"an interface with a name and a MAC": {
			template: `links: {ethernets: [{type: vif, id: nic0, name: ens1, mtu: 9000, macAddress: {string: "52-54-00-AB-CD-EF"}}]}`,
			want:     links(`{type: vif, id: nic0, name: ens1, mtu: 9000, ethernet_mac_address: "52-54-00-AB-CD-EF"}`),
		},
		"the MAC of an interface of the host": {
			template: "links: {ethernets: [{type: phy, id: a, mtu: 1500, macAddress: {fromHostInterface: eth1}}]}",
			want:     links(`{type: phy, id: a, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:02"}`),
		},
		"the MAC in an annotation": {
			template: "links: {ethernets: [{type: phy, id: a, mtu: 1500, macAddress: {fromAnnotation: {object: machine, annotation: mac}}}, {type: phy, id: b, mtu: 1500, macAddress: {fromAnnotation: {object: metal3machine, annotation: mac}}}, {type: phy, id: c, mtu: 1500, macAddress: {fromAnnotation: {object: baremetalhost, annotation: mac}}}]}",
			want:     links(`{type: phy, id: a, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:0a"}, {type: phy, id: b, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:0b"}, {type: phy, id: c, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:0c"}`),
		},
		"the order of sources of a MAC": {
			template: `links: {ethernets: [{type: phy, id: a, mtu: 1500, macAddress: {string: "52:54:00:00:00:99", fromHostInterface: eth1, fromAnnotation: {object: machine, annotation: mac}}}, {type: phy, id: b, mtu: 1500, macAddress: {fromHostInterface: eth1, fromAnnotation: {object: machine, annotation: mac}}}]}`,
			want:     links(`{type: phy, id: a, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:99"}, {type: phy, id: b, mtu: 1500, ethernet_mac_address: "52:54:00:00:00:02"}`),
		},
		"a bond": {
			template: "links: {bonds: [{id: bond0, bondMode: active-backup, mtu: 1500, bondLinks: [nic0, nic1]}]}",
			want:     links(`{type: bond, id: bond0, mtu: 1500, bond_mode: active-backup, bond_xmit_hash_policy: "", bond_links: [nic0, nic1]}`),
		},
		"a bond with all fields": {
			template: `links: {bonds: [{id: bond0, name: team, bondMode: 802.3ad, bondXmitHashPolicy: layer3+4, mtu: 1500, macAddress: {fromHostInterface: eth0}, bondLinks: [nic0], parameters: [{name: miimon, value: 100}, {name: lacp_rate, value: fast}, {name: more, value: {a: [1, true]}}, {name: none}]}]}`,
			want:     links(`{type: bond, id: bond0, name: team, mtu: 1500, bond_mode: 802.3ad, bond_xmit_hash_policy: layer3+4, bond_links: [nic0], ethernet_mac_address: "52:54:00:00:00:01", bond_miimon: 100, bond_lacp_rate: fast, bond_more: {a: [1, true]}, bond_none: null}`),
		},
		"a VLAN": {
			template: "links: {vlans: [{id: v, vlanID: 20, vlanLink: nic0, mtu: 1500}, {id: w, name: store, vlanID: 20, vlanLink: nic1, mtu: 1500, macAddress: {fromHostInterface: eth0}}]}",
			want:     links(`{type: vlan, id: v, mtu: 1500, vlan_link: nic0, vlan_id: 20}, {type: vlan, id: w, name: store, mtu: 1500, vlan_link: nic1, vlan_id: 20, vlan_mac_address: "52:54:00:00:00:01"}`),
		},
		"bonds come first, VLANs last": {
			template: "links: {vlans: [{id: v, vlanID: 1, vlanLink: b, mtu: 1500}], ethernets: [{type: phy, id: e, mtu: 1500}], bonds: [{id: b, bondMode: balance-rr, mtu: 1500, bondLinks: [e]}]}",
			want:     links(`{type: bond, id: b, mtu: 1500, bond_mode: balance-rr, bond_xmit_hash_policy: "", bond_links: [e]}, {type: phy, id: e, mtu: 1500}, {type: vlan, id: v, mtu: 1500, vlan_link: b, vlan_id: 1}`),
		},

		"a static IPv4 address": {
			template: "networks: {ipv4: [{id: net, link: l, ipAddressFromIPPool: pool4}]}",
			want:     networks("{type: ipv4, id: net, link: l, ip_address: 192.168.0.14, netmask: 255.255.255.0, routes: []}"),
		},
		"a static IPv6 address": {
			template: "networks: {ipv6: [{id: net, link: l, ipAddressFromIPPool: pool6}]}",
			want:     networks(`{type: ipv6, id: net, link: l, ip_address: "2001:db8::14", netmask: "ffff:ffff:ffff:ffff:ffff:ffff::", routes: []}`),
		},
		"the order of sources of an address": {
			template: "networks: {ipv4: [{id: a, link: l, ipAddressFromIPPool: x, fromPoolRef: {name: y}, fromPoolAnnotation: {object: machine, annotation: pool}}, {id: b, link: l, ipAddressFromIPPool: x, fromPoolRef: {apiGroup: ipam.cluster.x-k8s.io, kind: InClusterIPPool, name: pool4}}]}",
			want:     networks("{type: ipv4, id: a, link: l, ip_address: 192.168.0.14, netmask: 255.255.255.0, routes: []}, {type: ipv4, id: b, link: l, ip_address: 10.0.0.14, netmask: 255.255.0.0, routes: []}"),
		},
		"addresses from DHCP and router advertisements": {
			template: "networks: {ipv6SLAAC: [{id: c, link: l}], ipv6DHCP: [{id: b, link: l}], ipv4DHCP: [{id: a, link: l}]}",
			want:     networks("{type: ipv4_dhcp, id: a, link: l, routes: []}, {type: ipv6_dhcp, id: b, link: l, routes: []}, {type: ipv6_slaac, id: c, link: l, routes: []}"),
		},
		"routes": {
			template: `networks: {ipv4: [{id: net, link: l, ipAddressFromIPPool: pool4, routes: [{network: 0.0.0.0, gateway: {string: 192.168.0.254, fromIPPool: x}}, {network: 10.0.0.0, prefix: 8, gateway: {fromIPPool: pool4}, services: {dns: [1.1.1.1], dnsFromIPPool: pool4}}, {network: 10.0.0.0, prefix: 8, gateway: {fromPoolRef: {name: unrouted4}}}, {network: 10.9.0.0, prefix: 16, gateway: {}}]}]}`,
			want: networks(`{type: ipv4, id: net, link: l, ip_address: 192.168.0.14, netmask: 255.255.255.0, routes: [
				{network: 0.0.0.0, netmask: 0.0.0.0, gateway: 192.168.0.254, services: []},
				{network: 10.0.0.0, netmask: 255.0.0.0, gateway: 192.168.0.1, services: [{type: dns, address: 1.1.1.1}, {type: dns, address: 8.8.8.8}, {type: dns, address: 8.8.4.4}]},
				{network: 10.0.0.0, netmask: 255.0.0.0, gateway: "", services: []},
				{network: 10.9.0.0, netmask: 255.255.0.0, gateway: "", services: []}]}`),
		},
		"gateways of pools that annotations name, with addresses from DHCP and SLAAC": {
			template: `networks: {ipv4DHCP: [{id: a, link: l, routes: [{network: 0.0.0.0, gateway: {fromPoolAnnotation: {object: baremetalhost, annotation: pool}, fromPoolRef: {name: x}}}]}], ipv6SLAAC: [{id: b, link: l, routes: [{network: "::", prefix: 64, gateway: {fromPoolAnnotation: {object: metal3machine, annotation: pool}}}]}]}`,
			want: networks(`{type: ipv4_dhcp, id: a, link: l, routes: [{network: 0.0.0.0, netmask: 0.0.0.0, gateway: 192.168.0.1, services: []}]},
				{type: ipv6_slaac, id: b, link: l, routes: [{network: "::", netmask: "ffff:ffff:ffff:ffff::", gateway: "2001:db8::1", services: []}]}`),
		},
		"DNS servers": {
			template: `services: {dns: [9.9.9.9, "2620:fe::fe"], dnsFromIPPool: pool6}`,
			want:     `{links: [], networks: [], services: [{type: dns, address: 9.9.9.9}, {type: dns, address: "2620:fe::fe"}, {type: dns, address: "2001:4860:4860::8888"}]}`,
		},

		"invalid MAC addresses": {
			template: "links: {ethernets: [{type: phy, id: a, mtu: 1500, macAddress: {string: \"XX:XX\"}}, {type: phy, id: b, mtu: 1500, macAddress: {fromHostInterface: ib0}}, {type: phy, id: c, mtu: 1500, macAddress: {fromAnnotation: {object: machine, annotation: bad}}}, {type: phy, id: d, mtu: 1500, macAddress: {}}]}",
			problems: []string{
				`spec.networkData.links.ethernets[a].macAddress.string: Invalid value: "XX:XX": is not a MAC address; use six pairs of hexadecimal digits, such as 52:54:00:12:34:56, in a new Metal3DataTemplate`,
				`ethernets[b].macAddress.fromHostInterface: Invalid value: "ib0": has the MAC address "not-a-mac" on BareMetalHost host, which is not one of Ethernet; name another interface in a new Metal3DataTemplate, or inspect the host again`,
				`ethernets[c].macAddress.fromAnnotation.annotation: Invalid value: "bad": has the value "nonsense" on Machine machine, which is not a MAC address; set the annotation to six pairs of hexadecimal digits, such as 52:54:00:12:34:56`,
				`ethernets[d].macAddress: Required value: set string, fromHostInterface or fromAnnotation in a new Metal3DataTemplate`,
			},
		},
		"an interface that is missing on the host": {
			template: "links: {vlans: [{id: v, vlanID: 1, vlanLink: b, mtu: 1500, macAddress: {fromHostInterface: eth7}}]}",
			problems: []string{`links.vlans[v].macAddress.fromHostInterface: Invalid value: "eth7"`, "BareMetalHost host"},
		},
		"an annotation that is missing": {
			template: "{links: {ethernets: [{type: phy, id: a, mtu: 1500, macAddress: {fromAnnotation: {object: machine, annotation: none}}}]}, networks: {ipv4: [{id: net, link: l, fromPoolAnnotation: {object: baremetalhost, annotation: none}}]}}",
			problems: []string{`ethernets[a].macAddress.fromAnnotation.annotation: Invalid value: "none": is missing on Machine machine; set the annotation`, `networks.ipv4[net].fromPoolAnnotation.annotation: Invalid value: "none": is missing on BareMetalHost host`},
		},
		"an MTU that is too small": {
			template: "links: {bonds: [{id: a, bondMode: balance-rr, mtu: 12, bondLinks: [x]}]}", problems: []string{"links.bonds[a].mtu: Invalid value: 12", "use 68 to 9000"},
		},
		"a parameter with a field of its own": {
			template: "links: {bonds: [{id: a, bondMode: balance-rr, mtu: 1500, parameters: [{name: mode, value: x}, {name: links, value: x}]}]}",
			problems: []string{`links.bonds[a].parameters[mode].name: Invalid value: "mode": has a field of its own`, "parameters[links].name"},
		},
		"a parameter of the largest size": {
			template: "links: {bonds: [{id: a, bondMode: balance-rr, mtu: 1500, parameters: [{name: b, value: " + value(1024) + "}]}]}",
			want:     links(`{type: bond, id: a, mtu: 1500, bond_mode: balance-rr, bond_xmit_hash_policy: "", bond_links: null, bond_b: ` + value(1024) + "}"),
		},
		"parameters that are too large": {
			template: "links: {bonds: [{id: a, bondMode: balance-rr, mtu: 1500, parameters: [{name: b, value: " + value(1025) + "}, {name: c, value: " + strings.Repeat("[", 3000) + strings.Repeat("]", 3000) + "}]}]}",
			problems: []string{
				"spec.networkData.links.bonds[a].parameters[b].value: Too long: has 1025 bytes of JSON, the limit is 1024; use a shorter value in a new Metal3DataTemplate",
				"bonds[a].parameters[c].value: Too long: has 6000 bytes of JSON, the limit is 1024",
			},
		},
		"parameters that are too large together": {
			template: "links: {bonds: [" + strings.Repeat("{id: a, bondMode: balance-rr, mtu: 1500, parameters: [{name: b, value: "+value(1024)+"}]},", 16) + "{id: a, bondMode: balance-rr, mtu: 1500, parameters: [{name: b, value: 1}]}]}",
			problems: []string{"spec.networkData.links.bonds: Too long: have parameters with 16385 bytes of JSON, the limit is 16384; use shorter values in a new Metal3DataTemplate"},
		},
		"addresses of the wrong family": {
			template: `networks: {ipv4: [{id: a, link: l, ipAddressFromIPPool: pool6}], ipv6: [{id: b, link: l, fromPoolRef: {name: pool4}, routes: [{network: "::", gateway: {fromIPPool: pool4}}]}]}`,
			problems: []string{
				`networks.ipv4[a].ipAddressFromIPPool: Invalid value: "pool6": allocated the address 2001:db8::14, which is not of IPv4; use a pool of IPv4 addresses in a new Metal3DataTemplate`,
				`networks.ipv6[b].fromPoolRef: Invalid value: "pool4": allocated the address 192.168.0.14, which is not of IPv6; use a pool of IPv6 addresses in a new Metal3DataTemplate`,
				`ipv6[b].routes[0].gateway.fromIPPool: Invalid value: "pool4": allocated the gateway 192.168.0.1, which is not of IPv6; use a pool of IPv6 addresses in a new Metal3DataTemplate`,
			},
		},
		"invalid routes": {
			template: `networks: {ipv4: [{id: a, link: l, ipAddressFromIPPool: pool4, routes: [{network: "2001:db8::", prefix: 64, gateway: {string: "fe80::1"}}]}], ipv4DHCP: [{id: c, link: l, routes: [{network: default, gateway: {string: the router}}]}], ipv6: [{id: b, link: l, ipAddressFromIPPool: pool6, routes: [{network: 10.0.0.0, prefix: 129, gateway: {string: 10.0.0.1}}]}]}`,
			problems: []string{
				`ipv4[a].routes[0].network: Invalid value: "2001:db8::": is not an IPv4 address; use the network address of the destination in a new Metal3DataTemplate`,
				`ipv4[a].routes[0].prefix: Invalid value: 64: is not the length of an IPv4 prefix; use 0 to 32 in a new Metal3DataTemplate`,
				`ipv4[a].routes[0].gateway.string: Invalid value: "fe80::1": is not an IPv4 address; use the address of the gateway in a new Metal3DataTemplate`,
				`ipv4DHCP[c].routes[0].network: Invalid value: "default": is not an IPv4 address`,
				`ipv4DHCP[c].routes[0].gateway.string: Invalid value: "the router": is not an IPv4 address`,
				`ipv6[b].routes[0].network: Invalid value: "10.0.0.0": is not an IPv6 address; use the network address`,
				`ipv6[b].routes[0].prefix: Invalid value: 129: is not the length of an IPv6 prefix; use 0 to 128 in a new`,
				`ipv6[b].routes[0].gateway.string: Invalid value: "10.0.0.1": is not an IPv6 address; use the address of the gateway`,
			},
		},
		"pools without a usable prefix": {
			template: "networks: {ipv4: [{id: a, link: l, ipAddressFromIPPool: bare}, {id: b, link: l, ipAddressFromIPPool: beyond}]}",
			problems: []string{
				`ipv4[a].ipAddressFromIPPool: Invalid value: "bare": allocated an address without a prefix; set the prefix of the pool, then delete the Machine, because an allocated address does not change`,
				`ipv4[b].ipAddressFromIPPool: Invalid value: "beyond": allocated the prefix 64, which is not one of IPv4; correct the pool, then delete the Machine, because an allocated address does not change`,
			},
		},
		"pools without an address": {
			template: "{networks: {ipv4: [{id: a, link: l, ipAddressFromIPPool: none, routes: [{network: 0.0.0.0, gateway: {fromIPPool: none}}]}, {id: b, link: l}]}, services: {dnsFromIPPool: none}}",
			problems: []string{"ipv4[a].ipAddressFromIPPool", "routes[0].gateway.fromIPPool", "ipv4[b].fromPoolRef.name: Required value: name the pool of the address in a new Metal3DataTemplate", "services.dnsFromIPPool"},
		},
	}
}

func TestNetworkData(t *testing.T) {
	for name, tc := range networkDataCases() {
		t.Run(name, func(t *testing.T) { testNetworkData(t, tc) })
	}
}

// testNetworkData renders a template directly, and after a conversion to v1beta1 and back.
func testNetworkData(t *testing.T, tc networkDataCase) {
	template := read[infrav1.NetworkData](t, tc.template)
	got, err := hostdata.NetworkData(&template, subject(), addresses())
	check(t, tc.want, tc.problems, got, err)
	if old := throughOldVersion(t, infrav1.Metal3DataTemplateSpec{NetworkData: &template}); old != nil {
		got, err = hostdata.NetworkData(old.NetworkData, subject(), addresses())
		check(t, tc.want, tc.problems, got, err)
	}
}

// TestDNSServersOfPoolsAreBounded renders the DNS servers of a pool in many routes.
func TestDNSServersOfPoolsAreBounded(t *testing.T) {
	pools := map[hostdata.Pool]hostdata.Address{metal3("many"): {DNSServers: slices.Repeat([]string{"8.8.8.8"}, 500)}}
	render := func(routes int) ([]byte, error) {
		template := infrav1.NetworkData{Networks: infrav1.NetworkAddresses{IPv4DHCP: []infrav1.DynamicNetwork{{ID: "a"}}}}
		template.Networks.IPv4DHCP[0].Routes = slices.Repeat([]infrav1.NetworkRoute{{
			Network: "0.0.0.0", Gateway: infrav1.NetworkGateway{String: "10.0.0.1"},
			Services: infrav1.NetworkServices{DNSFromIPPool: "many"},
		}}, routes)
		return hostdata.NetworkData(&template, subject(), pools)
	}
	const want = `spec.networkData.networks.ipv4DHCP[a].routes[8].services.dnsFromIPPool: Invalid value: "many": adds 500 ` +
		"DNS servers to the 4000 from other uses of pools, the limit is 4096; use it in fewer routes of a new " +
		"Metal3DataTemplate, or shorten spec.dnsServers of the pool, then delete the Machine, because an allocated address " +
		"does not change"
	if got, err := render(8); err != nil || bytes.Count(got, []byte("8.8.8.8")) != 4000 {
		t.Errorf("got %v, want 4000 DNS servers", err)
	}
	if got, err := render(20); err == nil || err.Error() != want {
		t.Errorf("got %d bytes, %v, want %s", len(got), err, want)
	}
}

func TestDuplicateIDs(t *testing.T) {
	const remedy = " Programs that read network data expect each ID once. spec.networkData is immutable: create a " +
		"Metal3DataTemplate with different IDs, and name it in spec.template.spec.dataTemplate of a new Metal3MachineTemplate."
	cases := map[string]struct{ template, want string }{
		"none": {template: "{links: {ethernets: [{id: a}], vlans: [{id: b}]}, networks: {ipv4: [{id: a}], ipv6: [{id: a}]}}"},
		"links": {
			template: "{links: {ethernets: [{id: a}, {id: b}, {id: a}], bonds: [{id: c}, {id: c}], vlans: [{id: d}, {id: d}]}}",
			want: "2 entries of spec.networkData.links.ethernets have the id a, and all are rendered. " +
				"2 entries of spec.networkData.links.bonds have the id c, and all are rendered. " +
				"2 entries of spec.networkData.links.vlans have the id d, and all are rendered." + remedy,
		},
		"networks": {
			template: "{networks: {ipv4: [{id: a}, {id: a}, {id: a}], ipv6: [{id: b}, {id: b}], ipv4DHCP: [{id: c}, {id: c}], " +
				"ipv6DHCP: [{id: d}, {id: d}], ipv6SLAAC: [{id: e}, {id: e}]}}",
			want: "3 entries of spec.networkData.networks.ipv4 have the id a, and all are rendered. " +
				"2 entries of spec.networkData.networks.ipv6 have the id b, and all are rendered. " +
				"2 entries of spec.networkData.networks.ipv4DHCP have the id c, and all are rendered. " +
				"2 entries of spec.networkData.networks.ipv6DHCP have the id d, and all are rendered. " +
				"2 entries of spec.networkData.networks.ipv6SLAAC have the id e, and all are rendered." + remedy,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template := read[infrav1.NetworkData](t, tc.template)
			if diff := cmp.Diff(tc.want, hostdata.DuplicateIDs(&template)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
	if got := hostdata.DuplicateIDs(nil); got != "" {
		t.Errorf("a template without network-data has duplicate IDs: %s", got)
	}
}
