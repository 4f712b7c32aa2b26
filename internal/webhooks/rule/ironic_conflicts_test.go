package rule_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

func TestAPIServerAndIronic(t *testing.T) {
	const refused = "is one of ironic.endpoint.virtualIPs, which move with Ironic; give the API server and Ironic different " +
		"addresses"
	const served = "is in a range or a reservation of ironic.dhcp, which would give it to a host; use an address outside of them"
	serving := func(change func(*infrav1.IronicDHCP)) *infrav1.Ironic {
		ironic := dualStack()
		change(ironic.DHCP)
		return ironic
	}
	cases := map[string]struct {
		reason string
		host   string
		ironic *infrav1.Ironic
		want   []string
	}{
		"apart":        {"as it should be", "172.22.0.10", dualStack(), nil},
		"in the range": {"a host would get the address of the API server", "172.22.0.200", dualStack(), []string{`spec.controlPlaneEndpoint.host: Invalid value: "172.22.0.200": ` + served}},
		"beside it":    {"as it should be", "172.22.0.201", dualStack(), nil},
		"in an extra range": {"a host would get the address of the API server", "172.30.0.10", serving(func(dhcp *infrav1.IronicDHCP) {
			dhcp.ExtraRanges = []infrav1.IronicDHCPRange{{NetworkCIDR: "172.30.0.0/24", RangeBegin: "172.30.0.10", RangeEnd: "172.30.0.20"}}
		}), []string{`spec.controlPlaneEndpoint.host: Invalid value: "172.30.0.10": ` + served}},
		"reserved": {"a host would get the address of the API server", "fd00:22::10", serving(func(dhcp *infrav1.IronicDHCP) {
			dhcp.Hosts = []string{"id:00:01,[fd00:22::10]"}
		}), []string{`spec.controlPlaneEndpoint.host: Invalid value: "fd00:22::10": ` + served}},
		"no Ironic":      {"no endpoint of Ironic", "172.22.0.2", nil, nil},
		"no endpoint":    {"the endpoint of the Cluster is used", "", dualStack(), nil},
		"a name":         {"a name is not resolved", "api.example", dualStack(), nil},
		"same":           {"the address of the API server would move with Ironic", "172.22.0.2", dualStack(), []string{`spec.controlPlaneEndpoint.host: Invalid value: "172.22.0.2": ` + refused}},
		"same, in words": {"an IPv6 address has several forms", "fd00:22:0::2", dualStack(), []string{`spec.controlPlaneEndpoint.host: Invalid value: "fd00:22:0::2": ` + refused}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := &infrav1.Metal3ClusterSpec{Ironic: c.ironic}
			if c.host != "" {
				spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: c.host, Port: 6443}
			}
			if diff := cmp.Diff(c.want, texts(rule.ClusterSpec(field.NewPath("spec"), spec).Errors)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestIronicGateway(t *testing.T) {
	findMistakes(t, map[string]mistake{
		"Ironic itself": {
			reason: "hosts would send all packets to Ironic",
			change: func(ironic *infrav1.Ironic) { ironic.DHCP.Gateway = "172.22.0.2" },
			want: []string{`ironic.dhcp.gateway: Invalid value: "172.22.0.2": is the VIP of Ironic itself, which is no ` +
				"router; give the address of the router, or omit it"},
		},
	})
}

func TestRouterIDChange(t *testing.T) {
	with := func(id int32) *infrav1.Ironic {
		ironic := least()
		ironic.VRRP.VirtualRouterID = id
		return ironic
	}
	cases := map[string]struct {
		reason        string
		before, after *infrav1.Ironic
		want          []string
	}{
		"added":   {"a start", nil, with(50), nil},
		"removed": {"an end", with(50), nil, nil},
		"same":    {"nothing", with(50), with(50), nil},
		"chosen":  {"nodes are created after that", with(0), with(50), nil},
		"changed": {"nodes of both IDs would hold the VIP", with(50), with(51), []string{
			"ironic.vrrp.virtualRouterID: changes from 50 to 51; nodes with the old ID ignore the advertisements of new nodes, " +
				"and two nodes would hold the VIP: demote the old nodes or replace all of them, and set the same ID for the " +
				"Ironic of the management cluster",
		}},
	}
	for name, c := range cases {
		got := rule.RouterIDChange(field.NewPath("ironic"), c.before, c.after)
		if diff := cmp.Diff(rule.Findings{Warnings: c.want}, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, c.reason, diff)
		}
	}
}

func TestVirtualIPChange(t *testing.T) {
	with := func(addresses ...string) *infrav1.Ironic {
		ironic := least()
		ironic.Endpoint.VirtualIPs = addresses
		return ironic
	}
	const rest = "; nodes with the old VIPs ignore the advertisements of new nodes, and two Ironics would act on the hosts: " +
		"demote the old nodes before a new one starts, or replace all of them, and set the same VIPs for the Ironic of the " +
		"management cluster"
	cases := map[string]struct {
		reason        string
		before, after *infrav1.Ironic
		want          []string
	}{
		"added":  {"a start", nil, with("172.22.0.2"), nil},
		"same":   {"nothing", with("172.22.0.2"), with("172.22.0.2"), nil},
		"longer": {"both nodes advertise the first VIP", with("172.22.0.2"), with("172.22.0.2", "fd00::2"), nil},
		"replaced": {"a node of each VIP would hold one", with("172.22.0.2"), with("172.22.0.3"), []string{
			"ironic.endpoint.virtualIPs: changes from [172.22.0.2] to [172.22.0.3]" + rest,
		}},
		"shorter": {"a node of both VIPs would keep the second", with("172.22.0.2", "fd00::2"), with("172.22.0.2"), []string{
			"ironic.endpoint.virtualIPs: changes from [172.22.0.2 fd00::2] to [172.22.0.2]" + rest,
		}},
	}
	for name, c := range cases {
		got := rule.IronicChange(field.NewPath("ironic"), c.before, c.after)
		if diff := cmp.Diff(rule.Findings{Warnings: c.want}, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, c.reason, diff)
		}
	}
}

// TestLowPorts warns of ports that only root may use by default.
func TestLowPorts(t *testing.T) {
	on := true
	const rest = ", and the web server does not run as root; set net.ipv4.ip_unprivileged_port_start of all nodes to at most "
	cases := map[string]struct {
		change func(*infrav1.Ironic)
		want   []string
	}{
		"defaults": {func(*infrav1.Ironic) {}, nil},
		"port of the web": {func(ironic *infrav1.Ironic) { ironic.Endpoint.ImagePort = 80 }, []string{
			"spec.ironic.endpoint.imagePort: is 80" + rest + "80, or choose a port from 1024 on. Otherwise Ironic starts on no node",
		}},
		"exporter": {func(ironic *infrav1.Ironic) {
			ironic.PrometheusExporter = infrav1.IronicPrometheusExporter{Enabled: &on, Port: 443}
		}, []string{
			"spec.ironic.prometheusExporter.port: is 443" + rest + "443, or choose a port from 1024 on. Otherwise Ironic starts " +
				"on no node",
		}},
		"no exporter": {func(ironic *infrav1.Ironic) { ironic.PrometheusExporter.Port = 443 }, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			spec := &infrav1.Metal3ClusterSpec{Ironic: least()}
			c.change(spec.Ironic)
			got := rule.ClusterSpec(field.NewPath("spec"), spec)
			if diff := cmp.Diff(rule.Findings{Warnings: c.want}, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestDHCPFamily warns of a range of the IP family of the second VIP.
func TestDHCPFamily(t *testing.T) {
	range4 := infrav1.IronicDHCP{RangeBegin: "172.22.0.100", RangeEnd: "172.22.0.200"}
	range6 := infrav1.IronicDHCP{RangeBegin: "fd00:22::100", RangeEnd: "fd00:22::200"}
	cases := map[string]struct {
		dhcp    infrav1.IronicDHCP
		reverse bool
		want    []string
	}{
		"first":                   {dhcp: range4},
		"first, in reverse order": {dhcp: range6, reverse: true},
		"second": {dhcp: range6, want: []string{
			"spec.ironic.dhcp.rangeBegin: is the IPv6 address fd00:22::100, and the URLs of kernel, ramdisk and callbacks " +
				"contain 172.22.0.2, the first of endpoint.virtualIPs; list the IPv6 address first in virtualIPs and cidrs. " +
				"Otherwise hosts without an IPv4 address do not boot the ramdisk",
		}},
		"second, in reverse order": {dhcp: range4, reverse: true, want: []string{
			"spec.ironic.dhcp.rangeBegin: is the IPv4 address 172.22.0.100, and the URLs of kernel, ramdisk and callbacks " +
				"contain fd00:22::2, the first of endpoint.virtualIPs; list the IPv4 address first in virtualIPs and cidrs. " +
				"Otherwise hosts without an IPv6 address do not boot the ramdisk",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			described := dualStack()
			described.DHCP = &c.dhcp
			if c.reverse {
				slices.Reverse(described.Endpoint.VirtualIPs)
				slices.Reverse(described.Endpoint.CIDRs)
			}
			got := rule.ClusterSpec(field.NewPath("spec"), &infrav1.Metal3ClusterSpec{Ironic: described})
			if diff := cmp.Diff(rule.Findings{Warnings: c.want}, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestProxiedNetworks warns of IPv6 networks for which Ironic uses the proxy.
func TestProxiedNetworks(t *testing.T) {
	const rest = ", because Ironic ignores IPv6 networks in no_proxy; list each IPv6 address in noProxy, or use a proxy that " +
		"routes to these networks"
	v6 := infrav1.IronicEndpoint{VirtualIPs: []string{"fd00:22::2"}, CIDRs: []string{"fd00:22::/64"}, Interface: "br0"}
	through := infrav1.IronicProxy{HTTPProxy: "http://proxy.example"}
	cases := map[string]struct {
		change func(*infrav1.Ironic)
		want   []string
	}{
		"no proxy": {change: func(ironic *infrav1.Ironic) { ironic.Endpoint = v6 }},
		"IPv4": {change: func(ironic *infrav1.Ironic) {
			ironic.Proxy = through
			ironic.Proxy.NoProxy = []string{"10.0.0.0/8", "fd00:30::5", "example.org"}
		}},
		"IPv6": {
			change: func(ironic *infrav1.Ironic) {
				ironic.Endpoint, ironic.Proxy = v6, through
				ironic.DHCP = &infrav1.IronicDHCP{
					RangeBegin: "fd00:22::100", RangeEnd: "fd00:22::200", ExtraRanges: []infrav1.IronicDHCPRange{
						{NetworkCIDR: "fd00:22::/64", RangeBegin: "fd00:22::300", RangeEnd: "fd00:22::400"},
						{NetworkCIDR: "fd00:30::1/64", RangeBegin: "fd00:30::10", RangeEnd: "fd00:30::20"},
					},
				}
			},
			want: []string{"spec.ironic.proxy: applies to hosts and BMCs in fd00:22::/64, fd00:30::/64" + rest},
		},
		"IPv6 networks of BMCs": {
			change: func(ironic *infrav1.Ironic) {
				ironic.Proxy = infrav1.IronicProxy{HTTPSProxy: "http://proxy.example", NoProxy: []string{"fd00:bc::/48"}}
			},
			want: []string{"spec.ironic.proxy: applies to hosts and BMCs in fd00:bc::/48" + rest},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			described := least()
			c.change(described)
			got := rule.ClusterSpec(field.NewPath("spec"), &infrav1.Metal3ClusterSpec{Ironic: described})
			if diff := cmp.Diff(rule.Findings{Warnings: c.want}, got, cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
		})
	}
}
