package address_test

import (
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/vishvananda/netlink"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/address"
)

const (
	firstMAC, secondMAC, portMAC, otherMAC = "52:54:00:00:00:01", "52:54:00:00:00:02", "52:54:00:00:00:03", "52:54:00:00:00:04"
)

// link is an interface that is up.
func link(name, mac string, own ...string) address.Link {
	return address.Link{Name: name, Up: true, MACs: []string{mac}, Addresses: addresses(own...)}
}

// TestChoose is the decision table of Choose.
func TestChoose(t *testing.T) {
	t.Parallel()
	byMAC := vip.NodeSettings{MACAddresses: []string{firstMAC, portMAC}}
	byCIDR := vip.NodeSettings{InterfaceCIDR: netip.MustParsePrefix("172.22.0.0/24")}
	down, loopback := link("eth0", firstMAC, "172.22.0.11"), link("lo", firstMAC, "172.22.0.11")
	down.Up, loopback.Loopback = false, true
	bridge := link("br0", secondMAC, "172.22.0.11")
	bridge.MACs = append(bridge.MACs, portMAC)
	port := link("eth3", portMAC)
	nic := link("ens3", firstMAC, "172.22.0.11", "fd00:22::11")
	for name, test := range map[string]struct {
		reason   string
		settings vip.NodeSettings
		links    []address.Link
		want     string
		// says are parts of the error.
		says []string
	}{
		"MAC": {reason: "the node has one of the listed addresses", settings: byMAC, links: []address.Link{link("ens4", secondMAC, "172.22.0.12"), nic}, want: "ens3"},
		"MAC of a port": {
			reason: "a bridge carries the addresses of its ports", settings: byMAC, links: []address.Link{port, bridge}, want: "br0"},
		"MAC of an interface and of a VLAN on it": {
			reason: "the VLAN alone has addresses", settings: byMAC, want: "ens3.7",
			links: []address.Link{link("ens3", firstMAC), link("ens3.7", firstMAC, "172.22.0.11")}},
		"MAC of an interface and of a VLAN, both with addresses": {
			reason: "the choice is ambiguous", settings: byMAC, says: []string{"ens3 ens3.7", "a MAC address of " + firstMAC},
			links: []address.Link{nic, link("ens3.7", firstMAC, "10.7.0.11")}},
		"MACs of two interfaces": {
			reason: "the choice is ambiguous", settings: byMAC, says: []string{"[ens3 eth3] have"},
			links: []address.Link{nic, link("eth3", portMAC, "10.7.0.11")}},
		"no such MAC": {
			reason: "the error lists the interfaces", settings: byMAC, links: []address.Link{link("ens4", secondMAC, "172.22.0.12")},
			says: []string{"no interface has a MAC address of " + firstMAC, "ens4", secondMAC, "172.22.0.12"}},
		"MAC without an address":      {reason: "keepalived requires a source", settings: byMAC, links: []address.Link{link("ens3", firstMAC)}, says: []string{"no interface"}},
		"MAC with a VIP alone":        {reason: "the VIP does not stay", settings: byMAC, links: []address.Link{link("ens3", firstMAC, "172.22.0.2")}, says: []string{"no interface"}},
		"MAC with the other family":   {reason: "no VIP is of this IP family", settings: byMAC, links: []address.Link{link("ens3", firstMAC, "fd00:22::11")}, says: []string{"no interface"}},
		"MAC of an interface down":    {reason: "an interface that is down does not count", settings: byMAC, links: []address.Link{down}, says: []string{"no interface"}},
		"MAC of a loopback interface": {reason: "no other node hears it", settings: byMAC, links: []address.Link{loopback}, says: []string{"no interface"}},
		"no interface":                {reason: "the node is starting", settings: byMAC, says: []string{"no interface", "are []"}},

		"CIDR": {
			reason: "the other interface is in another network", settings: byCIDR, links: []address.Link{link("ens4", secondMAC, "10.0.0.11"), nic}, want: "ens3"},
		"CIDR with two addresses on one": {
			reason: "they are on one interface", settings: byCIDR, links: []address.Link{link("ens3", firstMAC, "172.22.0.11", "172.22.0.12")}, want: "ens3"},
		"CIDR with the VIP elsewhere": {
			reason: "the VIP is not an own address", settings: byCIDR, links: []address.Link{nic, link("ens4", secondMAC, "172.22.0.2", "10.0.0.1")}, want: "ens3"},
		"CIDR with the VIP alone": {
			reason: "the lease of a dead guard has not ended", settings: byCIDR, links: []address.Link{link("ens3", firstMAC, "172.22.0.2")},
			says: []string{"no interface has an address of its own in 172.22.0.0/24"}},
		"CIDR on two interfaces": {
			reason: "the choice is ambiguous", settings: byCIDR, links: []address.Link{nic, link("ens4", secondMAC, "172.22.0.12")},
			says: []string{"interfaces [ens3 ens4] have an address of its own in 172.22.0.0/24", "spec.ironic.endpoint"}},
		"CIDR of an interface down": {
			reason: "an interface that is down does not count", settings: byCIDR, links: []address.Link{down}, says: []string{"no interface"}},
		"CIDR on the loopback interface": {
			reason: "some load balancers add addresses to it", settings: byCIDR, links: []address.Link{nic, loopback}, want: "ens3"},
	} {
		test.settings.VirtualIPs = []vip.Address{{Address: netip.MustParseAddr("172.22.0.2")}}
		// The order of the interfaces must not matter.
		for range 2 {
			got, err := address.Choose(test.settings, test.links)
			if got != test.want || (err != nil) != (test.want == "") {
				t.Errorf("%s: %s: got %q, %v", name, test.reason, got, err)
			}
			for _, text := range test.says {
				if err != nil && !strings.Contains(err.Error(), text) {
					t.Errorf("%s: the error lacks %q: %v", name, text, err)
				}
			}
			slices.Reverse(test.links)
		}
	}
}

// TestLinks reads real interfaces: a bridge with a port, an interface on the bridge, and addresses that cannot be a
// source.
func TestLinks(t *testing.T) {
	t.Parallel()
	var links []address.Link
	inNetwork(t, func(handle *netlink.Handle) (err error) {
		if err := makeLinks(handle); err != nil {
			return err
		}
		links, err = address.Links()
		return err
	})
	want := []address.Link{
		{Name: "br0", Up: true, MACs: []string{firstMAC, secondMAC}, Addresses: addresses("172.22.0.11", "fd00:22::11")},
		{Name: "eth0", Up: true, MACs: []string{firstMAC}},
		{Name: "eth1", MACs: []string{portMAC}},
		{Name: "lo", Loopback: true},
		{Name: "mac0", Up: true, MACs: []string{otherMAC}, Addresses: addresses("10.7.0.11")},
	}
	slices.SortFunc(links, func(a, b address.Link) int { return strings.Compare(a.Name, b.Name) })
	same := cmp.Comparer(func(a, b netip.Addr) bool { return a == b })
	if diff := cmp.Diff(want, links, same, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}

// makeLinks adds eth0 to a bridge, and creates another interface on the bridge.
func makeLinks(handle *netlink.Handle) error {
	var failure error
	do := func(err error) {
		if failure == nil {
			failure = err
		}
	}
	bridge := &netlink.Bridge{LinkAttrs: netlink.LinkAttrs{Name: "br0", HardwareAddr: mac(secondMAC)}}
	do(handle.LinkAdd(bridge))
	do(handle.LinkAdd(&netlink.Macvlan{
		LinkAttrs: netlink.LinkAttrs{Name: "mac0", ParentIndex: bridge.Index, HardwareAddr: mac(otherMAC)},
		Mode:      netlink.MACVLAN_MODE_BRIDGE,
	}))
	for name, address := range map[string]string{"eth0": firstMAC, "eth1": portMAC} {
		link, err := handle.LinkByName(name)
		do(err)
		if err == nil {
			do(handle.LinkSetHardwareAddr(link, mac(address)))
		}
	}
	for _, name := range []string{"br0", "mac0", "eth0"} {
		link, err := handle.LinkByName(name)
		do(err)
		if failure != nil {
			return failure
		}
		if name == "eth0" {
			do(handle.LinkSetMaster(link, bridge))
		}
		do(handle.LinkSetUp(link))
	}
	for text, lifetime := range map[string]int{"172.22.0.11/24": 60, "fd00:22::11/64": 60, "fd00:22::2/128": 0, "10.7.0.11/24": 60} {
		name := "br0"
		if strings.HasPrefix(text, "10.7") {
			name = "mac0"
		}
		link, err := handle.LinkByName(name)
		do(err)
		entry, err := netlink.ParseAddr(text)
		do(err)
		if failure != nil {
			return failure
		}
		// Without a preferred lifetime an address is deprecated.
		entry.ValidLft, entry.PreferedLft, entry.Flags = 60, lifetime, syscall.IFA_F_NODAD
		do(handle.AddrAdd(link, entry))
	}
	return failure
}

func mac(text string) net.HardwareAddr {
	parsed, _ := net.ParseMAC(text)
	return parsed
}
