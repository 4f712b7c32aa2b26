package vip

import (
	"net/netip"
	"slices"
)

// Group is one virtual router: the facts that distinguish the nodes of a cluster from those of another cluster. Invalid
// settings of a cluster are omitted.
type Group struct {
	// ClusterID of the cluster that the nodes belong to.
	ClusterID string

	// RouterID is the virtual router ID. Zero means the default for the ClusterID.
	RouterID int

	// Mode of all members of the group.
	Mode Mode

	// Addresses are the VIPs of the group.
	Addresses []netip.Addr

	// Networks of the addresses, in their masked form.
	Networks []netip.Prefix

	// Peers are the own addresses of all members. Empty in mode Multicast.
	Peers []netip.Addr
}

// ID returns the virtual router ID of the members.
func (g Group) ID() int {
	if g.RouterID != 0 {
		return g.RouterID
	}
	return freeRouterID(g.ClusterID, nil)
}

// SharesEndpoint returns true if two groups describe one endpoint, which clusters may share: both groups have the
// same ClusterID and a common VIP.
func (g Group) SharesEndpoint(other Group) bool {
	return g.ClusterID != "" && g.ClusterID == other.ClusterID && slices.ContainsFunc(g.Addresses, other.Shares)
}

// Shares returns true if an address is a VIP of the group.
func (g Group) Shares(address netip.Addr) bool { return slices.Contains(g.Addresses, address) }

// Reaches returns true if advertisements of one group reach members of the other, in both directions.
//
//	modes                      reach each other
//	Multicast and Multicast    if networks overlap: multicast stays in the network
//	Unicast and Unicast        if two addresses of one family are peers in both, one of each group: a member sends to its
//	                           peers only and drops packets of others
//	Unicast and Multicast      never: a member with peers ignores multicast
func (g Group) Reaches(other Group) bool {
	switch {
	case g.Mode != other.Mode:
		return false
	case g.Mode == Unicast:
		return g.sharesPeers(other)
	default:
		return slices.ContainsFunc(g.Networks, func(network netip.Prefix) bool {
			return slices.ContainsFunc(other.Networks, network.Overlaps)
		})
	}
}

func (g Group) sharesPeers(other Group) bool {
	found := map[bool]int{}
	for i, peer := range g.Peers {
		if slices.Contains(other.Peers, peer) && !slices.Contains(g.Peers[:i], peer) {
			found[peer.Is4()]++
		}
	}
	return max(found[true], found[false]) > 1
}

// RouterIDs returns the virtual router ID of each group: its own or, in the order of the groups, an ID that is unused
// among the groups that reach it. The same groups in the same order give the same result. Groups of one endpoint get
// the same ID.
//
// If all IDs are used, the group gets the default for its ClusterID.
func RouterIDs(groups []Group) []int {
	assigned := slices.Clone(groups)
	ids := make([]int, len(groups))
	for i := range assigned {
		if assigned[i].RouterID == 0 {
			assigned[i].RouterID = assigned[i].choose(assigned)
		}
		ids[i] = assigned[i].RouterID
	}
	return ids
}

// choose ignores groups without an ID: they choose later, and avoid the ID of this group.
func (g Group) choose(others []Group) int {
	var used []int
	for _, other := range others {
		switch {
		case other.RouterID == 0:
		case g.SharesEndpoint(other):
			return other.RouterID
		case g.Reaches(other):
			used = append(used, other.RouterID)
		}
	}
	return freeRouterID(g.ClusterID, used)
}

func freeRouterID(clusterID string, used []int) int {
	id, err := RouterID(clusterID, used...)
	if err != nil {
		return freeRouterID(clusterID, nil)
	}
	return id
}
