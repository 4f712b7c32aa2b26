package vip

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// Limits of a virtual router ID. 1 and 2 are left to others: keepalived of many Metal3 clusters uses them for the
// address of the control plane, and so does the keepalived image of Metal3 for its Ironic.
const (
	MinRouterID = 3
	MaxRouterID = 255
)

// levels is how many ordinals there are, see Ordinal.
const levels = 5

// RouterID chooses the virtual router ID of a group from the cluster's ID: the same one for as long as the same IDs are
// taken. It fails when all of them are.
func RouterID(clusterID string, taken ...int) (int, error) {
	const count = MaxRouterID - MinRouterID + 1
	start := int(hash(clusterID) % count)
	for step := range count {
		if id := MinRouterID + (start+step)%count; !slices.Contains(taken, id) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("choosing a virtual router ID for cluster %q: all of %d to %d are taken; use another network",
		clusterID, MinRouterID, MaxRouterID)
}

// Ordinal is the rank of a node among the members that takes over first: 0 before 1, at most 4. Members whose rank is
// the same are told apart by keepalived, which prefers the higher address. A node that is no member is last.
//
// Ranks repeat because the list may name every address that a node could ever get, and because the priorities made of
// them need gaps to be told apart in time.
func Ordinal(own netip.Addr, members []netip.Addr) int {
	family := slices.DeleteFunc(slices.Clone(members), func(m netip.Addr) bool { return m.Is4() != own.Is4() })
	slices.SortFunc(family, netip.Addr.Compare)
	if index := slices.Index(slices.Compact(family), own); index >= 0 {
		return index % levels
	}
	return levels - 1
}

// OrdinalOfName is the rank of a node where members are not known, which is so in mode Multicast.
func OrdinalOfName(node string) int {
	return int(hash(node) % levels)
}

func hash(text string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return sum.Sum32()
}
