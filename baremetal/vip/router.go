package vip

import (
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
)

// Limits of a virtual router ID. keepalived of many Metal3 clusters uses 1 and 2 for the control-plane endpoint,
// and so does the keepalived image of Metal3 for its Ironic.
const (
	MinRouterID = 3
	MaxRouterID = 255
)

// levels is the number of ordinals, see Ordinal.
const levels = 5

// RouterID returns the virtual router ID of a group for the ID of the cluster. The same used IDs give the same result.
// It returns an error if all IDs are used.
func RouterID(clusterID string, used ...int) (int, error) {
	const count = MaxRouterID - MinRouterID + 1
	start := int(hash(clusterID) % count)
	for step := range count {
		if id := MinRouterID + (start+step)%count; !slices.Contains(used, id) {
			return id, nil
		}
	}
	return 0, fmt.Errorf("choosing a virtual router ID for cluster %q: all of %d to %d are used; use another network",
		clusterID, MinRouterID, MaxRouterID)
}

// Ordinal returns the rank of a node among the members: 0 takes over before 1, and the last rank is 4. If two members
// have the same rank, keepalived prefers the higher address. A node that is not a member has the last rank.
//
// Ranks repeat because the list may contain every possible address of a node, and because priorities require gaps to
// differ in time.
func Ordinal(own netip.Addr, members []netip.Addr) int {
	family := slices.DeleteFunc(slices.Clone(members), func(m netip.Addr) bool { return m.Is4() != own.Is4() })
	slices.SortFunc(family, netip.Addr.Compare)
	if index := slices.Index(slices.Compact(family), own); index >= 0 {
		return index % levels
	}
	return levels - 1
}

// OrdinalOfName returns the rank of a node in mode Multicast, without a list of members.
func OrdinalOfName(node string) int {
	return int(hash(node) % levels)
}

func hash(text string) uint32 {
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(text))
	return sum.Sum32()
}
