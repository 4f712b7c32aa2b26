package hostdata_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

func TestPools(t *testing.T) {
	cases := map[string]struct {
		template string
		// want lists "group/kind/name from field".
		want     []string
		problems []string
	}{
		"none": {template: "{metaData: {}, networkData: {}}"},
		"the meta-data, each pool once": {
			template: "metaData: {ipAddressesFromPool: [{key: a, name: p}, {key: b, name: p}], prefixesFromPool: [{key: c, name: q}], gatewaysFromPool: [{key: d, name: r}], dnsServersFromPool: [{key: e, name: s}]}",
			want: []string{
				"ipam.metal3.io/IPPool/p from spec.metaData.ipAddressesFromPool[a]", "ipam.metal3.io/IPPool/q from spec.metaData.prefixesFromPool[c]",
				"ipam.metal3.io/IPPool/r from spec.metaData.gatewaysFromPool[d]", "ipam.metal3.io/IPPool/s from spec.metaData.dnsServersFromPool[e]",
			},
		},
		"pools of one name and other kinds": {
			template: "metaData: {ipAddressesFromPool: [{key: a, name: p}, {key: b, name: p, apiGroup: g, kind: K}, {key: c, name: p, apiGroup: g, kind: L}]}",
			want: []string{
				"g/K/p from spec.metaData.ipAddressesFromPool[b]", "g/L/p from spec.metaData.ipAddressesFromPool[c]",
				"ipam.metal3.io/IPPool/p from spec.metaData.ipAddressesFromPool[a]",
			},
		},
		"all places in the network-data": {
			template: `networkData: {networks: {
				ipv4: [{id: a, link: l, ipAddressFromIPPool: p1, routes: [{network: 0.0.0.0, gateway: {fromIPPool: p2}, services: {dnsFromIPPool: p3}}]}],
				ipv6: [{id: b, link: l, fromPoolRef: {name: p4}}],
				ipv4DHCP: [{id: c, link: l, routes: [{network: 0.0.0.0, gateway: {fromPoolAnnotation: {object: machine, annotation: pool}}}]}],
				ipv6DHCP: [{id: d, link: l, routes: [{network: "::", gateway: {fromPoolRef: {apiGroup: g, kind: K, name: p5}}}]}],
				ipv6SLAAC: [{id: e, link: l, routes: [{network: "::", gateway: {fromIPPool: p6}}]}]}, services: {dnsFromIPPool: p7}}`,
			want: []string{
				"g/K/p5 from spec.networkData.networks.ipv6DHCP[d].routes[0].gateway.fromPoolRef",
				"ipam.metal3.io/IPPool/p1 from spec.networkData.networks.ipv4[a].ipAddressFromIPPool",
				"ipam.metal3.io/IPPool/p2 from spec.networkData.networks.ipv4[a].routes[0].gateway.fromIPPool",
				"ipam.metal3.io/IPPool/p3 from spec.networkData.networks.ipv4[a].routes[0].services.dnsFromIPPool",
				"ipam.metal3.io/IPPool/p4 from spec.networkData.networks.ipv6[b].fromPoolRef",
				"ipam.metal3.io/IPPool/p6 from spec.networkData.networks.ipv6SLAAC[e].routes[0].gateway.fromIPPool",
				"ipam.metal3.io/IPPool/p7 from spec.networkData.services.dnsFromIPPool",
				"ipam.metal3.io/IPPool/pool4 from spec.networkData.networks.ipv4DHCP[c].routes[0].gateway.fromPoolAnnotation",
			},
		},
		"a gateway in a string requires no pool": {
			template: "networkData: {networks: {ipv4DHCP: [{id: a, link: l, routes: [{network: 0.0.0.0, gateway: {string: 10.0.0.1, fromIPPool: p}}]}]}}",
		},
		"an annotation wins over the other sources, and those are not claimed": {
			template: "networkData: {networks: {ipv4: [{id: a, link: l, ipAddressFromIPPool: p, fromPoolRef: {name: q}, fromPoolAnnotation: {object: metal3machine, annotation: pool}}]}}",
			want:     []string{"ipam.metal3.io/IPPool/pool6 from spec.networkData.networks.ipv4[a].fromPoolAnnotation"},
		},
		"an annotation that is missing": {
			template: "networkData: {networks: {ipv4: [{id: a, link: l, fromPoolAnnotation: {object: machine, annotation: none}}]}}",
			problems: []string{`ipv4[a].fromPoolAnnotation.annotation: Invalid value: "none": is missing on Machine machine; set the annotation`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			template := read[infrav1.Metal3DataTemplateSpec](t, tc.template)
			uses, err := hostdata.Pools(&template, subject())
			if len(tc.problems) > 0 {
				check(t, "", tc.problems, nil, err)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, use := range uses {
				got = append(got, strings.Join([]string{use.Group, use.Kind, use.Name}, "/")+" from "+use.Field.String())
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
