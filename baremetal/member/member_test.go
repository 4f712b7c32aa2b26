package member_test

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/member"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

var (
	own4, own6 = netip.MustParseAddr("172.22.0.21"), netip.MustParseAddr("fd00:22::21")
	peers      = []netip.Addr{
		netip.MustParseAddr("172.22.0.10"), own4, netip.MustParseAddr("fd00:22::10"), own6,
	}
	virtual4 = vip.Address{
		Address: netip.MustParseAddr("172.22.0.2"), Prefix: 24, Network: netip.MustParsePrefix("172.22.0.0/24"),
	}
	virtual6 = vip.Address{
		Address: netip.MustParseAddr("fd00:22::2"), Prefix: 128, Network: netip.MustParsePrefix("fd00:22::/64"),
	}
)

// settings returns the settings of a control plane with both IP families, changed by the function.
func settings(change func(*vip.NodeSettings)) vip.NodeSettings {
	made := vip.NodeSettings{
		ClusterID: "3f9c1a7e", Role: vip.ControlPlane, Interface: "eth0", VirtualRouterID: 51, Mode: vip.Unicast,
		VirtualIPs: []vip.Address{virtual4, virtual6}, Peers: peers,
		AdvertisementInterval: vip.Duration(200 * time.Millisecond), TakeoverWithin: vip.Duration(time.Second),
		Files: vip.Files{State: "/run/metal3-ironic"},
	}
	if change != nil {
		change(&made)
	}
	return made
}

// wanted returns the expected configuration of node-21, changed by the function.
func wanted(change func(*keepalived.Config)) keepalived.Config {
	made := keepalived.Config{
		Name: "3f9c1a7e-node-21", Role: keepalived.ControlPlane, Ordinal: 1, Interface: "eth0", VirtualRouterID: 51,
		Unicast: true, Timers: keepalived.Timers{Interval: 200 * time.Millisecond, Within: time.Second},
		HealthFile: "/run/metal3-ironic/ironic-ok", ArmedFile: "/run/metal3-ironic/armed",
		Instances: []keepalived.Instance{
			{Address: virtual4.OnInterface(), Source: own4, Peers: peers},
			{Address: virtual6.OnInterface(), Source: own6, Peers: peers},
		},
	}
	if change != nil {
		change(&made)
	}
	return made
}

// own returns the address of the node in either IP family.
func own(virtual vip.Address) (netip.Addr, bool) {
	if virtual.Address.Is4() {
		return own4, true
	}
	return own6, true
}

func TestKeepalived(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		node   string
		change func(*vip.NodeSettings)
		want   func(*keepalived.Config)
	}{
		"unicast": {reason: "the position among the peers of the first family sets the priority"},
		"management": {
			reason: "the settings set the role",
			change: func(s *vip.NodeSettings) { s.Role = vip.Management },
			want:   func(c *keepalived.Config) { c.Role = keepalived.Management },
		},
		"one family": {
			reason: "the only family sets the priority",
			change: func(s *vip.NodeSettings) { s.VirtualIPs = s.VirtualIPs[1:] },
			want:   func(c *keepalived.Config) { c.Instances = c.Instances[1:] },
		},
		"multicast": {
			reason: "there is no list of peers, so the name sets the priority",
			change: func(s *vip.NodeSettings) { s.Mode, s.Peers = vip.Multicast, nil },
			want: func(c *keepalived.Config) {
				c.Unicast, c.Ordinal = false, vip.OrdinalOfName("node-21")
				c.Instances = []keepalived.Instance{
					{Address: virtual4.OnInterface(), Source: own4}, {Address: virtual6.OnInterface()},
				}
			},
		},
		"a name with invalid characters": {
			reason: "keepalived uses the name only in its log", node: "node 21{é}",
			want: func(c *keepalived.Config) { c.Name = "3f9c1a7e-node-21" },
		},
		"no cluster": {
			reason: "the name begins with a letter or a digit",
			change: func(s *vip.NodeSettings) { s.ClusterID = "" },
			want:   func(c *keepalived.Config) { c.Name = "node-21" },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := "node-21"
			if test.node != "" {
				node = test.node
			}
			got, err := member.Keepalived(settings(test.change), node, own)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(wanted(test.want), got, cmpopts.EquateComparable(netip.Addr{}, netip.Prefix{})); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
		})
	}
}

// TestKeepalivedOutsideThePeers has a node that would receive no advertisement and become a second VRRP master.
func TestKeepalivedOutsideThePeers(t *testing.T) {
	t.Parallel()
	for name, listed := range map[string][]netip.Addr{
		"NoFamily": {peers[0], peers[2]}, "OneFamily": {peers[0], own4, peers[2]},
	} {
		outside := settings(func(s *vip.NodeSettings) { s.Peers = listed })
		_, err := member.Keepalived(outside, "node-21", own)
		if err == nil || !strings.Contains(err.Error(), "is not in spec.ironic.vrrp.peers; add it") ||
			!strings.Contains(err.Error(), vip.PeersAnnotation+"=") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestKeepalivedWithoutAnAddress requires an address of the node for each VIP in mode Unicast, and for an IPv4 VIP in
// mode Multicast.
func TestKeepalivedWithoutAnAddress(t *testing.T) {
	t.Parallel()
	none := func(virtual vip.Address) (netip.Addr, bool) { return own4, virtual.Address.Is4() }
	_, err := member.Keepalived(settings(nil), "node-21", none)
	if err == nil || !strings.Contains(err.Error(), "eth0 has no other address of the IP family of VIP fd00:22::2") {
		t.Errorf("in mode Unicast: %v", err)
	}
	multicast := settings(func(s *vip.NodeSettings) { s.Mode, s.Peers = vip.Multicast, nil })
	if _, err := member.Keepalived(multicast, "node-21", none); err != nil {
		t.Errorf("in mode Multicast: %v", err)
	}
	_, err = member.Keepalived(multicast, "node-21", func(vip.Address) (netip.Addr, bool) { return netip.Addr{}, false })
	if err == nil || !strings.Contains(err.Error(), "eth0 has no other address of the IP family of VIP 172.22.0.2") {
		t.Errorf("in mode Multicast: %v", err)
	}
}
