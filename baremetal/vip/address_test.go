package vip_test

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// wanted requires an error with the text. Empty means no error.
func wanted(t *testing.T, reason, want string, err error) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
		t.Errorf("%s: want an error with %q, got %v", reason, want, err)
	}
}

func addresses(t *testing.T, pairs ...string) []vip.Address {
	t.Helper()
	var all []vip.Address
	for i := 0; i < len(pairs); i += 2 {
		address, err := vip.NewAddress(pairs[i], pairs[i+1])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, address)
	}
	return all
}

func parsed(texts ...string) []netip.Addr {
	var all []netip.Addr
	for _, text := range texts {
		all = append(all, netip.MustParseAddr(text))
	}
	return all
}

func TestNewAddress(t *testing.T) {
	cases := map[string]struct {
		reason           string
		address, network string
		want             string
		refused          string
	}{
		"IPv4":              {reason: "the prefix of the network", address: "172.22.0.2", network: "172.22.0.0/24", want: "172.22.0.2/24"},
		"IPv4 of a node":    {reason: "users copy the address of a node", address: "172.22.0.2", network: "172.22.0.9/24", want: "172.22.0.2/24"},
		"IPv6":              {reason: "never the source of a connection", address: "fd00::2", network: "fd00::/64", want: "fd00::2/128"},
		"two addresses":     {reason: "no broadcast address in a /31", address: "172.22.0.0", network: "172.22.0.0/31", want: "172.22.0.0/31"},
		"one address":       {reason: "a network of its own", address: "172.22.0.0", network: "172.22.0.0/32", want: "172.22.0.0/32"},
		"IPv6 high":         {reason: "IPv6 has no broadcast address", address: "fd00::ff", network: "fd00::/120", want: "fd00::ff/128"},
		"outside":           {reason: "a typing mistake", address: "172.23.0.2", network: "172.22.0.0/24", refused: "172.23.0.2 is not in its network 172.22.0.0/24"},
		"other family":      {reason: "networks swapped", address: "172.22.0.2", network: "fd00::/64", refused: "is not in its network"},
		"network itself":    {reason: "not an address", address: "172.22.0.0", network: "172.22.0.0/24", refused: "the address of the network"},
		"IPv6 network":      {reason: "every router has it", address: "fd00::", network: "fd00::/64", refused: "the address of the network"},
		"broadcast":         {reason: "all nodes have it", address: "172.22.0.255", network: "172.22.0.0/24", refused: "the broadcast address of 172.22.0.0/24"},
		"broadcast of half": {reason: "not at a byte", address: "10.1.127.255", network: "10.1.0.0/17", refused: "the broadcast address of 10.1.0.0/17"},
		"no broadcast":      {reason: "not at a byte", address: "10.1.127.255", network: "10.1.0.0/16", want: "10.1.127.255/16"},
		"prefix of zero":    {reason: "every address is in it", address: "10.1.1.1", network: "0.0.0.0/0", refused: "has the prefix length 0"},
		"a name":            {reason: "not resolved", address: "ironic", network: "172.22.0.0/24", refused: `"ironic" is not an address`},
		"no network":        {reason: "a typing mistake", address: "172.22.0.2", network: "172.22.0.0", refused: `network "172.22.0.0" of address 172.22.0.2 is invalid`},
		"loopback":          {reason: "no other machine reaches it", address: "127.0.0.1", network: "127.0.0.0/8", refused: "does not belong to a node"},
		"multicast":         {reason: "the address of a group", address: "224.0.0.18", network: "224.0.0.0/24", refused: "does not belong to a node"},
		"unspecified":       {reason: "no address", address: "::", network: "::/64", refused: "does not belong to a node"},
		"link-local":        {reason: "a URL cannot contain it", address: "fe80::2", network: "fe80::/64", refused: "one interface or one machine"},
		"mapped":            {reason: "the family is ambiguous", address: "::ffff:172.22.0.2", network: "172.22.0.0/24", refused: "one interface or one machine"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := vip.NewAddress(c.address, c.network)
			wanted(t, c.reason, c.refused, err)
			if err == nil && got.OnInterface().String() != c.want {
				t.Errorf("%s: want %s, got %s", c.reason, c.want, got.OnInterface())
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	cases := map[string]struct {
		reason               string
		virtualIPs, networks []string
		want                 string
	}{
		"one":           {reason: "the minimum", virtualIPs: []string{"172.22.0.2"}, networks: []string{"172.22.0.0/24"}},
		"dual":          {reason: "one of each", virtualIPs: []string{"fd00::2", "172.22.0.2"}, networks: []string{"fd00::/64", "172.22.0.0/24"}},
		"none":          {reason: "a VIP is required", want: "there is no VIP"},
		"networks less": {reason: "the networks are ambiguous", virtualIPs: []string{"172.22.0.2"}, want: "1 VIPs and 0 networks"},
		"two of one family": {
			reason: "they may move to different nodes", virtualIPs: []string{"172.22.0.2", "172.22.0.3"},
			networks: []string{"172.22.0.0/24", "172.22.0.0/24"}, want: "172.22.0.2 and 172.22.0.3 are of one family",
		},
		"second is wrong": {
			reason: "each VIP is checked", virtualIPs: []string{"172.22.0.2", "x"},
			networks: []string{"172.22.0.0/24", "fd00::/64"}, want: `"x" is not an address`,
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := vip.Addresses(c.virtualIPs, c.networks)
			wanted(t, c.reason, c.want, err)
			if err == nil && got[0].Address.String() != c.virtualIPs[0] {
				t.Errorf("%s: the first is %s, want %s", c.reason, got[0].Address, c.virtualIPs[0])
			}
		})
	}
}

func TestMembers(t *testing.T) {
	both := addresses(t, "172.22.0.2", "172.22.0.0/24", "fd00::2", "fd00::/64")
	cases := map[string]struct {
		reason    string
		nodes     []string
		addresses []vip.Address
		want      []netip.Addr
		refused   string
	}{
		"sorted": {
			reason: "all nodes have one list", nodes: []string{"fd00::21", "172.22.0.100", "172.22.0.21", "172.22.0.100"},
			addresses: both, want: parsed("172.22.0.21", "172.22.0.100", "fd00::21"),
		},
		"in another network": {
			reason: "unicast reaches it", nodes: []string{"172.23.0.21"}, addresses: both, want: parsed("172.23.0.21"),
		},
		"family without address": {
			reason: "a mistake in the list", nodes: []string{"fd00::21"}, addresses: both[:1],
			refused: "fd00::21 is of a family without a VIP",
		},
		"VIP": {
			reason: "the VIP would never move", nodes: []string{"172.22.0.2"}, addresses: both,
			refused: "172.22.0.2 is a VIP and cannot be the own address of a node",
		},
		"name": {reason: "not resolved", nodes: []string{"node-1"}, addresses: both, refused: `"node-1" is not an address`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := vip.Members(c.nodes, c.addresses)
			wanted(t, c.reason, c.refused, err)
			if err == nil && !cmp.Equal(c.want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })) {
				t.Errorf("%s: want %v, got %v", c.reason, c.want, got)
			}
		})
	}
}

func TestRouterID(t *testing.T) {
	seen := map[int]int{}
	for number := range 5000 {
		id, err := vip.RouterID(strings.Repeat("x", number%7) + string(rune('a'+number%26)) + strings.Repeat("y", number/26))
		if err != nil || id < vip.MinRouterID || id > vip.MaxRouterID {
			t.Fatalf("cluster %d has router ID %d, %v", number, id, err)
		}
		seen[id]++
	}
	if len(seen) < 250 {
		t.Errorf("5000 clusters share %d IDs, want nearly all of 253", len(seen))
	}
}

// TestRouterIDTaken reduces the number of unused IDs step by step.
func TestRouterIDTaken(t *testing.T) {
	first, err := vip.RouterID("3f9c1a7e")
	if err != nil {
		t.Fatal(err)
	}
	taken := []int{}
	for id := range vip.MaxRouterID + 1 {
		if id != 200 && id >= vip.MinRouterID {
			taken = append(taken, id)
		}
	}
	second, err := vip.RouterID("3f9c1a7e", first)
	if err != nil || second == first {
		t.Errorf("with %d used it is %d, %v; want another one", first, second, err)
	}
	if last, err := vip.RouterID("3f9c1a7e", taken...); err != nil || last != 200 {
		t.Errorf("with all but 200 used it is %d, %v; want 200", last, err)
	}
	if none, err := vip.RouterID("3f9c1a7e", append(taken, 200)...); err == nil {
		t.Errorf("with all used it is %d; want an error", none)
	}
}

func TestOrdinal(t *testing.T) {
	members := parsed("fd00::21", "172.22.0.30", "172.22.0.21", "172.22.0.22", "172.22.0.25", "172.22.0.24", "172.22.0.23")
	for own, want := range map[string]int{
		"172.22.0.21": 0, "172.22.0.22": 1, "172.22.0.25": 4, "172.22.0.30": 0, "fd00::21": 0, "172.22.0.99": 4,
	} {
		if got := vip.Ordinal(netip.MustParseAddr(own), members); got != want {
			t.Errorf("ordinal of %s is %d, want %d", own, got, want)
		}
	}
	seen := map[int]bool{}
	for _, node := range []string{"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"} {
		ordinal := vip.OrdinalOfName(node)
		if ordinal < 0 || ordinal > 4 || ordinal != vip.OrdinalOfName(node) {
			t.Errorf("ordinal of node %s is %d", node, ordinal)
		}
		seen[ordinal] = true
	}
	if len(seen) < 3 {
		t.Errorf("twelve nodes have the ordinals %v, want more different ones", seen)
	}
}
