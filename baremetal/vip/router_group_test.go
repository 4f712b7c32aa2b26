package vip_test

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// group returns a group of mode Multicast with pairs of addresses and networks.
func group(t *testing.T, clusterID string, pairs ...string) vip.Group {
	t.Helper()
	made := vip.Group{ClusterID: clusterID, Mode: vip.Multicast}
	for _, address := range addresses(t, pairs...) {
		made.Addresses = append(made.Addresses, address.Address)
		made.Networks = append(made.Networks, address.Network)
	}
	return made
}

// withPeers returns the group in mode Unicast.
func withPeers(made vip.Group, peers ...string) vip.Group {
	made.Mode, made.Peers = vip.Unicast, parsed(peers...)
	return made
}

func TestReaches(t *testing.T) {
	a := group(t, "a", "172.22.0.2", "172.22.0.0/24")
	b := group(t, "b", "172.22.0.3", "172.22.0.0/24")
	far := group(t, "far", "172.23.0.2", "172.23.0.0/24")
	cases := map[string]struct {
		reason string
		a, b   vip.Group
		want   bool
	}{
		"one network":       {"the common case", a, b, true},
		"two networks":      {"multicast stays in its network", a, far, false},
		"part of a network": {"the network has the wrong mask", a, group(t, "b", "172.22.1.2", "172.22.0.0/16"), true},
		"families apart":    {"each family has its own advertisements", a, group(t, "b", "fd00::2", "fd00::/64"), false},
		"one family of two": {
			"one family is sufficient", group(t, "a", "172.22.0.2", "172.22.0.0/24", "fd00::2", "fd00::/64"),
			group(t, "b", "172.23.0.2", "172.23.0.0/24", "fd00::3", "fd00::/64"), true,
		},
		"peers apart":       {"members send only to their peers", withPeers(a, "172.22.0.11", "172.22.0.12"), withPeers(b, "172.22.0.21", "172.22.0.22"), false},
		"one peer in both":  {"the peer belongs to one group, and drops packets of the other", withPeers(a, "172.22.0.11", "172.22.0.12"), withPeers(b, "172.22.0.12", "172.22.0.13"), false},
		"two peers in both": {"both list all possible addresses of nodes", withPeers(a, "172.22.0.11", "172.22.0.12"), withPeers(b, "172.22.0.12", "172.22.0.11"), true},
		"the same one twice": {
			"duplicates count once", withPeers(a, "172.22.0.11", "172.22.0.11"), withPeers(b, "172.22.0.11", "172.22.0.12"), false,
		},
		"two families of one peer": {
			"a member of each family is missing", withPeers(a, "172.22.0.11", "fd00::11"), withPeers(b, "172.22.0.11", "fd00::11"), false,
		},
		"peers far away":        {"peers are reached through routers", withPeers(a, "172.22.0.11", "172.22.0.12"), withPeers(far, "172.22.0.11", "172.22.0.12"), true},
		"Unicast and Multicast": {"the modes differ", withPeers(a, "172.22.0.11", "172.22.0.12"), b, false},
		"no network":            {"no network overlaps", vip.Group{Mode: vip.Multicast}, b, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if there, back := c.a.Reaches(c.b), c.b.Reaches(c.a); there != c.want || back != c.want {
				t.Errorf("%s: got %t and the other way round %t, want %t", c.reason, there, back, c.want)
			}
		})
	}
}

func TestSharesEndpoint(t *testing.T) {
	a := group(t, "a", "172.22.0.2", "172.22.0.0/24")
	cases := map[string]struct {
		reason string
		other  vip.Group
		want   bool
	}{
		"same":               {"shared on purpose", group(t, "a", "172.22.0.2", "172.22.0.0/24"), true},
		"one address of two": {"one cluster adds a second family", group(t, "a", "fd00::2", "fd00::/64", "172.22.0.2", "172.22.0.0/24"), true},
		"another address":    {"a copied clusterID", group(t, "a", "172.22.0.3", "172.22.0.0/24"), false},
		"another clusterID":  {"a copied VIP", group(t, "b", "172.22.0.2", "172.22.0.0/24"), false},
	}
	for name, c := range cases {
		if got := a.SharesEndpoint(c.other); got != c.want {
			t.Errorf("%s: %s: got %t, want %t", name, c.reason, got, c.want)
		}
	}
	nameless := group(t, "", "172.22.0.2", "172.22.0.0/24")
	if nameless.SharesEndpoint(nameless) {
		t.Error("clusters without a clusterID share an endpoint")
	}
}

func TestRouterIDs(t *testing.T) {
	// a, b and c have the same default ID.
	same := collidingIDs(t)
	alone, err := vip.RouterID(same[0])
	if err != nil {
		t.Fatal(err)
	}
	at := func(clusterID, address string, id int) vip.Group {
		made := group(t, clusterID, address, "172.22.0.0/24")
		made.RouterID = id
		return made
	}
	a, b, c := at(same[0], "172.22.0.2", 0), at(same[1], "172.22.0.3", 0), at(same[2], "172.22.0.4", 0)
	far := group(t, same[1], "172.23.0.2", "172.23.0.0/24")
	cases := map[string]struct {
		reason string
		groups []vip.Group
		want   []int
	}{
		"alone":        {"without a comparison", []vip.Group{a}, []int{alone}},
		"in order":     {"the first has its default, the others use the next IDs", []vip.Group{a, b, c}, []int{alone, alone + 1, alone + 2}},
		"other order":  {"age decides, not the name", []vip.Group{c, a, b}, []int{alone, alone + 1, alone + 2}},
		"given":        {"a given ID stays, even if it belongs to a younger cluster", []vip.Group{a, at("x", "172.22.0.9", alone)}, []int{alone + 1, alone}},
		"given twice":  {"both were set by users; a condition reports the conflict", []vip.Group{at("x", "172.22.0.8", 9), at("y", "172.22.0.9", 9)}, []int{9, 9}},
		"far away":     {"advertisements do not reach the other network", []vip.Group{a, far}, []int{alone, alone}},
		"one endpoint": {"the nodes of both are one group", []vip.Group{at(same[0], "172.22.0.2", 77), b, a}, []int{77, alone, 77}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := slices.Clone(tc.groups)
			if diff := cmp.Diff(tc.want, vip.RouterIDs(tc.groups)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			for i := range before {
				if before[i].RouterID != tc.groups[i].RouterID {
					t.Errorf("group %d was changed", i)
				}
			}
		})
	}
}

// TestRouterIDsOfMany expects different IDs for a hundred clusters of one network, and an ID for each cluster if there
// are more clusters than IDs.
func TestRouterIDsOfMany(t *testing.T) {
	var groups []vip.Group
	for number := range vip.MaxRouterID {
		made := group(t, "cluster-"+strconv.Itoa(number), "172.22.1."+strconv.Itoa(number%250+1), "172.22.0.0/16")
		groups = append(groups, made)
	}
	some := vip.RouterIDs(groups[:100])
	slices.Sort(some)
	if got := len(slices.Compact(some)); got != 100 {
		t.Errorf("100 clusters have %d different IDs", got)
	}
	all := vip.RouterIDs(groups)
	if slices.Min(all) < vip.MinRouterID || slices.Max(all) > vip.MaxRouterID {
		t.Errorf("IDs are from %d to %d", slices.Min(all), slices.Max(all))
	}
	if last := groups[len(groups)-1]; all[len(all)-1] != last.ID() {
		t.Errorf("with all used it is %d, want the default %d", all[len(all)-1], last.ID())
	}
}

func TestGroupID(t *testing.T) {
	alone, err := vip.RouterID("3f9c1a7e")
	if err != nil {
		t.Fatal(err)
	}
	if got := (vip.Group{ClusterID: "3f9c1a7e"}).ID(); got != alone {
		t.Errorf("without an ID it is %d, want %d", got, alone)
	}
	if got := (vip.Group{ClusterID: "3f9c1a7e", RouterID: 77}).ID(); got != 77 {
		t.Errorf("with ID 77 it is %d", got)
	}
	if (vip.Group{}).Shares(netip.Addr{}) {
		t.Error("empty groups share an address")
	}
}

// collidingIDs returns three clusterIDs with the same default ID, whose next two IDs are unused.
func collidingIDs(t *testing.T) []string {
	t.Helper()
	found := map[int][]string{}
	for number := range 5000 {
		clusterID := strings.Repeat("c", number%3+1) + strconv.Itoa(number)
		id, err := vip.RouterID(clusterID)
		if err != nil {
			t.Fatal(err)
		}
		found[id] = append(found[id], clusterID)
		if len(found[id]) == 3 && id+2 <= vip.MaxRouterID {
			return found[id]
		}
	}
	t.Fatal("no three of 5000 clusterIDs have the same default ID")
	return nil
}
