package v1beta2_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

func dataTemplate(changes ...func(*infrav1.Metal3DataTemplateSpec)) *infrav1.Metal3DataTemplate {
	template := &infrav1.Metal3DataTemplate{
		ObjectMeta: named("data"),
		Spec: infrav1.Metal3DataTemplateSpec{
			MetaData: &infrav1.MetaData{Strings: []infrav1.MetaDataString{{Key: "rack", Value: "a"}}},
			NetworkData: &infrav1.NetworkData{
				Links: infrav1.NetworkLinks{Ethernets: []infrav1.EthernetLink{{
					Type: "phy", ID: "eth0", MTU: 1500, MACAddress: &infrav1.LinkMAC{String: "is not judged"},
				}}},
				Networks: infrav1.NetworkAddresses{IPv4: []infrav1.StaticNetwork{{
					ID: "provisioning", Link: "eth0", IPAddressFromIPPool: "pool",
				}}},
			},
		},
	}
	for _, change := range changes {
		change(&template.Spec)
	}
	return template
}

func metaData(sources ...infrav1.MetaDataHostInterface) func(*infrav1.Metal3DataTemplateSpec) {
	return func(spec *infrav1.Metal3DataTemplateSpec) { spec.MetaData.FromHostInterfaces = sources }
}

func networks(networks infrav1.NetworkAddresses) func(*infrav1.Metal3DataTemplateSpec) {
	return func(spec *infrav1.Metal3DataTemplateSpec) { spec.NetworkData.Networks = networks }
}

func route(network string, prefix int32, gateway string, dns ...string) infrav1.NetworkRoute {
	return infrav1.NetworkRoute{
		Network: network, Prefix: ptr.To(prefix),
		Gateway: infrav1.NetworkGateway{String: gateway}, Services: infrav1.NetworkServices{DNS: dns},
	}
}

func TestMetal3DataTemplateMetaData(t *testing.T) {
	judge(t, v1beta2.Metal3DataTemplateValidator(), map[string]step[*infrav1.Metal3DataTemplate]{
		"valid": {reason: "strings and a network", after: dataTemplate()},
		"empty": {
			reason: "a template may be empty",
			after:  dataTemplate(func(spec *infrav1.Metal3DataTemplateSpec) { *spec = infrav1.Metal3DataTemplateSpec{} }),
		},
		"interfaces": {
			reason: "by name, by boot MAC address, and by name with an explicit false",
			after: dataTemplate(metaData(
				infrav1.MetaDataHostInterface{Key: "a", Interface: "eth0"},
				infrav1.MetaDataHostInterface{Key: "b", FromBootMAC: ptr.To(true)},
				infrav1.MetaDataHostInterface{Key: "c", Interface: "eth0", FromBootMAC: ptr.To(false)},
			)),
		},
		"both or neither": {
			reason: "exactly one source is required",
			after: dataTemplate(metaData(
				infrav1.MetaDataHostInterface{Key: "both", Interface: "eth0", FromBootMAC: ptr.To(true)},
				infrav1.MetaDataHostInterface{Key: "neither", FromBootMAC: ptr.To(false)},
				infrav1.MetaDataHostInterface{Key: "nothing"},
			)),
			want: []string{
				`spec.metaData.fromHostInterfaces[both].interface: Invalid value: "eth0": is set together with ` +
					"fromBootMAC; set only one of them",
				"spec.metaData.fromHostInterfaces[neither].interface: Required value: set interface, or set fromBootMAC " +
					"to true",
				"spec.metaData.fromHostInterfaces[nothing].interface: Required value: set interface, or set fromBootMAC " +
					"to true",
			},
		},
		"cluster name": {
			reason: "deprecated since templates serve several clusters",
			after:  dataTemplate(func(spec *infrav1.Metal3DataTemplateSpec) { spec.ClusterName = "cluster" }),
			warnings: []string{`spec.clusterName: "cluster" is deprecated and has no effect; leave the field out, a ` +
				"template serves all clusters of its namespace"},
		},
	})
}

func TestMetal3DataTemplateAddressSources(t *testing.T) {
	source := func(change func(*infrav1.StaticNetwork)) *infrav1.Metal3DataTemplate {
		network := infrav1.StaticNetwork{ID: "n", Link: "eth0"}
		change(&network)
		return dataTemplate(networks(infrav1.NetworkAddresses{
			IPv4: []infrav1.StaticNetwork{network}, IPv6: []infrav1.StaticNetwork{network},
		}))
	}
	const remedy = "[n].fromPoolRef.name: Required value: name the pool of the address here, in ipAddressFromIPPool or " +
		"through fromPoolAnnotation"
	missing := []string{"spec.networkData.networks.ipv4" + remedy, "spec.networkData.networks.ipv6" + remedy}
	annotation := infrav1.AnnotationSource{Object: infrav1.SourceMachine, Annotation: "pool"}
	judge(t, v1beta2.Metal3DataTemplateValidator(), map[string]step[*infrav1.Metal3DataTemplate]{
		"pool name": {
			reason: "a pool of Metal3",
			after:  source(func(network *infrav1.StaticNetwork) { network.IPAddressFromIPPool = "pool" }),
		},
		"pool reference": {
			reason: "any pool",
			after:  source(func(network *infrav1.StaticNetwork) { network.FromPoolRef = &infrav1.PoolRef{Name: "pool"} }),
		},
		"annotation": {
			reason: "a pool by annotation",
			after:  source(func(network *infrav1.StaticNetwork) { network.FromPoolAnnotation = &annotation }),
		},
		"nothing": {
			reason: "a pool is required",
			after:  source(func(*infrav1.StaticNetwork) {}), want: missing,
		},
		"reference without name": {
			reason: "a pool requires a name",
			after:  source(func(network *infrav1.StaticNetwork) { network.FromPoolRef = &infrav1.PoolRef{Kind: "IPPool"} }),
			want:   missing,
		},
		"annotation without object": {
			reason: "an annotation requires an object",
			after: source(func(network *infrav1.StaticNetwork) {
				network.FromPoolAnnotation = &infrav1.AnnotationSource{}
			}),
			want: missing,
		},
	})
}

func TestMetal3DataTemplateRoutes(t *testing.T) {
	dynamic := func(routes ...infrav1.NetworkRoute) []infrav1.DynamicNetwork {
		return []infrav1.DynamicNetwork{{ID: "n", Link: "eth0", Routes: routes}}
	}
	static := func(routes ...infrav1.NetworkRoute) []infrav1.StaticNetwork {
		return []infrav1.StaticNetwork{{ID: "n", Link: "eth0", IPAddressFromIPPool: "pool", Routes: routes}}
	}
	const anyAddress = "is not an IP address; write it like 192.0.2.10 or 2001:db8::10"
	judge(t, v1beta2.Metal3DataTemplateValidator(), map[string]step[*infrav1.Metal3DataTemplate]{
		"valid": {
			reason: "all five lists; name servers of any family; the longest prefixes; a mapped address is an IPv6 address",
			after: dataTemplate(networks(infrav1.NetworkAddresses{
				IPv4:      static(route("0.0.0.0", 0, "192.0.2.1", "2001:db8::53", "192.0.2.53"), route("192.0.2.9", 32, "")),
				IPv6:      static(route("::", 0, "fe80::1"), route("2001:db8::9", 128, "::ffff:102:304")),
				IPv4DHCP:  dynamic(route("198.51.100.0", 24, "192.0.2.1")),
				IPv6DHCP:  dynamic(route("2001:db8:1::", 48, "2001:db8::1")),
				IPv6SLAAC: dynamic(infrav1.NetworkRoute{Network: "2001:db8:1::"}),
			})),
		},
		"several routes to one network": {
			reason: "CAPM3 supports only one",
			after: dataTemplate(networks(infrav1.NetworkAddresses{
				IPv4: static(route("0.0.0.0", 0, "192.0.2.1"), route("0.0.0.0", 0, "192.0.2.2")),
			})),
		},
		"not addresses": {
			reason: "each error names its field",
			after: dataTemplate(networks(infrav1.NetworkAddresses{
				IPv4: static(route("", 0, "gateway", "1.1.1"), route("192.0.2.0/24", 24, "")),
			}), func(spec *infrav1.Metal3DataTemplateSpec) { spec.NetworkData.Services.DNS = []string{"fe80::1%eth0"} }),
			want: []string{
				"spec.networkData.networks.ipv4[n].routes[0].network: Required value: give an IPv4 or IPv6 address",
				`spec.networkData.networks.ipv4[n].routes[0].gateway.string: Invalid value: "gateway": ` + anyAddress,
				`spec.networkData.networks.ipv4[n].routes[0].services.dns[0]: Invalid value: "1.1.1": ` + anyAddress,
				`spec.networkData.networks.ipv4[n].routes[1].network: Invalid value: "192.0.2.0/24": ` + anyAddress,
				`spec.networkData.services.dns[0]: Invalid value: "fe80::1%eth0": has a zone; remove the % and the text ` +
					"after it",
			},
		},
		"other family": {
			reason: "a route has the family of its network",
			after: dataTemplate(networks(infrav1.NetworkAddresses{
				IPv4DHCP: dynamic(route("2001:db8::", 32, "2001:db8::1")),
				IPv6:     static(route("192.0.2.0", 24, "")), IPv6SLAAC: dynamic(route("::", 0, "192.0.2.1")),
			})),
			want: []string{
				`spec.networkData.networks.ipv6[n].routes[0].network: Invalid value: "192.0.2.0": is not an IPv6 address; ` +
					"use one of the family of the network",
				`spec.networkData.networks.ipv4DHCP[n].routes[0].network: Invalid value: "2001:db8::": is not an IPv4 ` +
					"address; use one of the family of the network",
				`spec.networkData.networks.ipv4DHCP[n].routes[0].gateway.string: Invalid value: "2001:db8::1": is not an ` +
					"IPv4 address; use one of the family of the network",
				`spec.networkData.networks.ipv6SLAAC[n].routes[0].gateway.string: Invalid value: "192.0.2.1": is not an ` +
					"IPv6 address; use one of the family of the network",
			},
		},
		"prefixes": {
			reason: "the length depends on the family",
			after: dataTemplate(networks(infrav1.NetworkAddresses{
				IPv4: static(route("0.0.0.0", 33, ""), route("0.0.0.0", -1, "")), IPv6DHCP: dynamic(route("::", 129, "")),
			})),
			want: []string{
				"spec.networkData.networks.ipv4[n].routes[0].prefix: Invalid value: 33: is not the length of an IPv4 " +
					"prefix; use 0 to 32",
				"spec.networkData.networks.ipv4[n].routes[1].prefix: Invalid value: -1: is not the length of an IPv4 " +
					"prefix; use 0 to 32",
				"spec.networkData.networks.ipv6DHCP[n].routes[0].prefix: Invalid value: 129: is not the length of an IPv6 " +
					"prefix; use 0 to 128",
			},
		},
	})
}

// parameters makes the template have bonds, each with one parameter of the size in bytes of JSON.
func parameters(sizes ...int) func(*infrav1.Metal3DataTemplateSpec) {
	var bonds []infrav1.BondLink
	for _, size := range sizes {
		value := apiextensionsv1.JSON{Raw: []byte(`"` + strings.Repeat("a", size-len(`""`)) + `"`)}
		bonds = append(bonds, infrav1.BondLink{ID: "b", Parameters: []infrav1.BondParameter{{Name: "p", Value: value}}})
	}
	return func(spec *infrav1.Metal3DataTemplateSpec) { spec.NetworkData.Links.Bonds = bonds }
}

func TestMetal3DataTemplateParameters(t *testing.T) {
	judge(t, v1beta2.Metal3DataTemplateValidator(), map[string]step[*infrav1.Metal3DataTemplate]{
		"at the limits": {
			reason: "16 values of 1 KiB",
			after:  dataTemplate(parameters(slices.Repeat([]int{1024}, 16)...)),
		},
		"large values": {
			reason: "each is refused",
			after:  dataTemplate(parameters(1025, 20_000)),
			want: []string{
				"spec.networkData.links.bonds[b].parameters[p].value: Too long: has 1025 bytes of JSON, the limit is 1024; " +
					"use a shorter value",
				"spec.networkData.links.bonds[b].parameters[p].value: Too long: has 20000 bytes of JSON, the limit is 1024; " +
					"use a shorter value",
			},
		},
		"many values": {
			reason: "together they are too large",
			after:  dataTemplate(parameters(slices.Repeat([]int{1024}, 17)...)),
			want: []string{"spec.networkData.links.bonds: Too long: have parameters with 17408 bytes of JSON, the limit is " +
				"16384; use shorter values"},
		},
		"existing": {
			reason: "finalizers of an existing template can be removed",
			before: dataTemplate(parameters(2048)), after: dataTemplate(parameters(2048)),
		},
	})
}

func TestMetal3DataTemplateUpdate(t *testing.T) {
	const remedy = " did; create a new Metal3DataTemplate and reference it from a new Metal3MachineTemplate"
	clusterName := func(name string) func(*infrav1.Metal3DataTemplateSpec) {
		return func(spec *infrav1.Metal3DataTemplateSpec) { spec.ClusterName = name }
	}
	noSource := networks(infrav1.NetworkAddresses{IPv4: []infrav1.StaticNetwork{{ID: "n", Link: "eth0"}}})
	toPrefix := func(prefix *int32) func(*infrav1.Metal3DataTemplateSpec) {
		return func(spec *infrav1.Metal3DataTemplateSpec) {
			routes := []infrav1.NetworkRoute{{Network: "0.0.0.0", Prefix: prefix}}
			networks(infrav1.NetworkAddresses{
				IPv4:     []infrav1.StaticNetwork{{ID: "a", Link: "eth0", IPAddressFromIPPool: "pool", Routes: routes}},
				IPv4DHCP: []infrav1.DynamicNetwork{{ID: "b", Link: "eth0", Routes: routes}},
			})(spec)
		}
	}
	fromMAC := func(from *bool) func(*infrav1.Metal3DataTemplateSpec) {
		return metaData(infrav1.MetaDataHostInterface{Key: "mac", Interface: "eth0", FromBootMAC: from})
	}
	judge(t, v1beta2.Metal3DataTemplateValidator(), map[string]step[*infrav1.Metal3DataTemplate]{
		"nothing": {reason: "no change", before: dataTemplate(), after: dataTemplate()},
		"zeros removed": {
			reason: "they render the same",
			before: dataTemplate(fromMAC(ptr.To(false)), toPrefix(ptr.To[int32](0))),
			after:  dataTemplate(fromMAC(nil), toPrefix(nil)),
		},
		"prefix removed": {
			reason: "the route is to another network",
			before: dataTemplate(toPrefix(ptr.To[int32](1))), after: dataTemplate(toPrefix(ptr.To[int32](0))),
			want: []string{"spec.networkData: Forbidden: does not change, but networks.ipv4[0].routes[0].prefix, " +
				"networks.ipv4DHCP[0].routes[0].prefix" + remedy},
		},
		"meta-data": {
			reason: "machines use the rendered data",
			before: dataTemplate(),
			after:  dataTemplate(func(spec *infrav1.Metal3DataTemplateSpec) { spec.MetaData.Strings[0].Value = "b" }),
			want:   []string{"spec.metaData: Forbidden: does not change, but strings[0].value" + remedy},
		},
		"meta-data removed": {
			reason: "a removal is refused too",
			before: dataTemplate(),
			after:  dataTemplate(func(spec *infrav1.Metal3DataTemplateSpec) { spec.MetaData = nil }),
			want:   []string{"spec.metaData: Forbidden: does not change, but all of it" + remedy},
		},
		"network-data": {
			reason: "each changed field is named",
			before: dataTemplate(),
			after: dataTemplate(func(spec *infrav1.Metal3DataTemplateSpec) {
				spec.NetworkData.Links.Ethernets[0].MTU = 9000
				spec.NetworkData.Services.DNS = []string{"192.0.2.53"}
			}),
			want: []string{"spec.networkData: Forbidden: does not change, but links.ethernets[0].mtu, services.dns" + remedy},
		},
		"empty list": {
			reason: "an empty list equals a missing one",
			before: dataTemplate(),
			after:  dataTemplate(metaData([]infrav1.MetaDataHostInterface{}...)),
		},
		"cluster name": {
			reason: "the only mutable field, with a warning",
			before: dataTemplate(), after: dataTemplate(clusterName("cluster")),
			warnings: []string{`spec.clusterName: "cluster" is deprecated and has no effect; leave the field out, a ` +
				"template serves all clusters of its namespace"},
		},
		"cluster name unchanged": {
			reason: "an unchanged field causes no warning",
			before: dataTemplate(clusterName("cluster")), after: dataTemplate(clusterName("cluster")),
		},
		"was wrong": {
			reason: "finalizers of an invalid object can be removed",
			before: dataTemplate(noSource), after: dataTemplate(noSource),
		},
	})
}
