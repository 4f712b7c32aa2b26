package main

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Components for address families. An overlay has at most one of them.
const (
	onlyIPv6  = "ipv6"
	ipv6Next  = "dual-stack"
	ipv6First = "dual-stack-ipv6"
)

// check reads the values that the named components of an overlay use, validates them with the renderer, and prints the
// matching spec of a Metal3Cluster.
func check(root string, components []string, output io.Writer) error {
	read, err := readValues(root)
	if err != nil {
		return err
	}
	described, err := describe(read, components...)
	if err != nil {
		return err
	}
	made, err := renderFor(described)
	if err != nil {
		return fmt.Errorf("checking %s: %w", path.Dir(valuesFile), err)
	}
	lease := "dhcp-range=" + read.variables["DHCP_RANGE"] + ","
	if described.DHCP != nil && !bytes.Contains(made.dnsmasq, []byte(lease)) {
		return fmt.Errorf("checking %s: DHCP_RANGE is %q; end it with the netmask of PROVISIONING_CIDR, and with nothing "+
			"else", valuesFile, read.variables["DHCP_RANGE"])
	}
	text, err := yaml.Marshal(map[string]any{"ironic": described})
	if err != nil {
		return err
	}
	fmt.Fprintf(output, "# The spec of the Metal3Cluster for the same VRRP group.\n%s", text)
	return nil
}

// describe returns the specification as an API object.
func describe(from values, components ...string) (infrav1.Ironic, error) {
	set := from.variables
	routerID, err := strconv.ParseInt(set["VIRTUAL_ROUTER_ID"], 10, 32)
	if err != nil {
		return infrav1.Ironic{}, fmt.Errorf("reading values: VIRTUAL_ROUTER_ID is %q; use a number from 3 to 255",
			set["VIRTUAL_ROUTER_ID"])
	}
	described := infrav1.Ironic{
		ClusterID: set["CLUSTER_ID"],
		Endpoint: infrav1.IronicEndpoint{
			VirtualIPs: []string{set["PROVISIONING_IP"]}, CIDRs: []string{set["PROVISIONING_CIDR"]},
			Interface: set["PROVISIONING_INTERFACE"],
		},
		VRRP: infrav1.VRRP{VirtualRouterID: int32(routerID)},
	}
	known := additions()
	for _, name := range components {
		add, is := known[name]
		if !is {
			return infrav1.Ironic{}, fmt.Errorf("%q is not a component that affects the Metal3Cluster; name those of %s that "+
				"the overlay has", name, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
		if err := add(from, &described); err != nil {
			return infrav1.Ironic{}, err
		}
	}
	return described, from.checkFamilies(components)
}

// additions are the changes of components to the specification.
func additions() map[string]func(values, *infrav1.Ironic) error {
	nothing := func(values, *infrav1.Ironic) error { return nil }
	known := map[string]func(values, *infrav1.Ironic) error{
		"advertisement-interval": values.interval,
		"dhcp":                   values.dhcp,
		"guard-metrics": func(_ values, described *infrav1.Ironic) error {
			described.GuardMetrics.BindAddress = netip.IPv4Unspecified().String()
			return nil
		},
		"unicast": values.unicast,
		onlyIPv6:  nothing,
		ipv6Next:  values.second,
		ipv6First: values.second,
	}
	for _, one := range authorities {
		// A ConfigMap of the cluster contains the bundle.
		known[one.component] = nothing
	}
	return known
}

func (v values) second(described *infrav1.Ironic) error {
	endpoint := &described.Endpoint
	endpoint.VirtualIPs = append(endpoint.VirtualIPs, v.variables["SECOND_IP"])
	endpoint.CIDRs = append(endpoint.CIDRs, v.variables["SECOND_CIDR"])
	return nil
}

// unicast also sets the mode: without it, an empty list would mean multicast.
func (v values) unicast(described *infrav1.Ironic) error {
	described.VRRP.Mode, described.VRRP.Peers = infrav1.VRRPUnicast, v.peers
	return nil
}

func (v values) interval(described *infrav1.Ironic) error {
	text := v.variables["ADVERTISEMENT_INTERVAL"]
	length, err := time.ParseDuration(text)
	if err != nil {
		return fmt.Errorf("reading values: ADVERTISEMENT_INTERVAL is %q; write it like 200ms", text)
	}
	described.VRRP.AdvertisementInterval = &metav1.Duration{Duration: length}
	return nil
}

// dhcp parses the values in the syntax of dnsmasq.
func (v values) dhcp(described *infrav1.Ironic) error {
	words := strings.Split(v.variables["DHCP_RANGE"], ",")
	if len(words) < 2 {
		return fmt.Errorf("reading values: DHCP_RANGE is %q; write two addresses and a netmask with commas between them",
			v.variables["DHCP_RANGE"])
	}
	routers, err := v.option("DHCP_ROUTER", "option:router")
	if err != nil {
		return err
	}
	servers, err := v.option("DHCP_DNS", "option:dns-server")
	if err != nil {
		return err
	}
	described.DHCP = &infrav1.IronicDHCP{
		RangeBegin: words[0], RangeEnd: words[1], Gateway: strings.Join(routers, ","), DNS: servers,
	}
	return nil
}

// option returns the values of an option of dnsmasq.
func (v values) option(variable, name string) ([]string, error) {
	words := strings.Split(v.variables[variable], ",")
	if words[0] != name {
		return nil, fmt.Errorf("reading values: %s is %q; write %s, and what to hand out after a comma", variable,
			v.variables[variable], name)
	}
	return words[1:], nil
}

// checkFamilies checks facts that kustomize cannot: prefixes and URLs depend on the family of the first VIP.
func (v values) checkFamilies(components []string) error {
	address := v.variables["PROVISIONING_IP"]
	six := strings.Contains(address, ":")
	var said []string
	for _, name := range []string{onlyIPv6, ipv6Next, ipv6First} {
		if slices.Contains(components, name) {
			said = append(said, name)
		}
	}
	saidSix := slices.Contains(said, onlyIPv6) || slices.Contains(said, ipv6First)
	switch {
	case len(said) > 1:
		return fmt.Errorf("components %q exclude one another: use one", said)
	case six && !saidSix:
		return fmt.Errorf("PROVISIONING_IP is %s, of IPv6; add component %s or %s to the overlay, and name it here",
			address, onlyIPv6, ipv6First)
	case !six && saidSix:
		return fmt.Errorf("PROVISIONING_IP is %s, which is no IPv6 address, as %s requires: remove the component, or use %s",
			address, said[0], ipv6Next)
	case six && slices.Contains(components, "dhcp"):
		return fmt.Errorf("component dhcp serves IPv4 from PROVISIONING_IP, which is %s; make the address of IPv4 the first "+
			"one, and use %s", address, ipv6Next)
	default:
		return nil
	}
}
