package vip

import (
	"net/netip"
	"slices"
)

// Group is one virtual router: what tells the nodes that share addresses from those of another cluster. It may come
// from a description with mistakes; what could not be read is not in it.
type Group struct {
	// ClusterID of the cluster that the nodes belong to.
	ClusterID string

	// RouterID is the virtual router ID. Zero means the one that comes from the ClusterID.
	RouterID int

	// Mode in which all members of the group run.
	Mode Mode

	// Addresses that the members share.
	Addresses []netip.Addr

	// Networks of the addresses, in their masked form.
	Networks []netip.Prefix

	// Peers are the own addresses of all members. Empty in mode Multicast.
	Peers []netip.Addr
}

// ID is the virtual router ID that the members use.
func (g Group) ID() int {
	if g.RouterID != 0 {
		return g.RouterID
	}
	return freeRouterID(g.ClusterID, nil)
}

// IsOneWith says whether two groups describe one endpoint, which several clusters share on purpose: they have the same
// identity and an address in common.
func (g Group) IsOneWith(other Group) bool {
	return g.ClusterID != "" && g.ClusterID == other.ClusterID && slices.ContainsFunc(g.Addresses, other.Shares)
}

// Shares says whether an address is one of those that the members share.
func (g Group) Shares(address netip.Addr) bool { return slices.Contains(g.Addresses, address) }

// Hears says whether advertisements of one group reach members of the other.
//
//	modes                      hear one another
//	Multicast and Multicast    if networks overlap: what is sent to all stays on the wire, and a network is on one wire
//	Unicast and Unicast        if two addresses of one family are peers in both: one of each group, for a member sends to
//	                           its peers alone and drops what comes from others
//	Unicast and Multicast      never: a member with peers does not listen to what is sent to all
func (g Group) Hears(other Group) bool {
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

// RouterIDs gives each group its virtual router ID: the one that it has or, one group after the other, one that no
// group has that it hears. The same groups in the same order get the same IDs, whoever asks. Groups that are one get
// the same ID.
//
// A group that finds all IDs taken gets the one that it would have alone.
func RouterIDs(groups []Group) []int {
	settled := slices.Clone(groups)
	ids := make([]int, len(groups))
	for i := range settled {
		if settled[i].RouterID == 0 {
			settled[i].RouterID = settled[i].choose(settled)
		}
		ids[i] = settled[i].RouterID
	}
	return ids
}

// choose leaves out groups that have no ID yet, the own one among them: they choose later, and find this one.
func (g Group) choose(others []Group) int {
	var taken []int
	for _, other := range others {
		switch {
		case other.RouterID == 0:
		case g.IsOneWith(other):
			return other.RouterID
		case g.Hears(other):
			taken = append(taken, other.RouterID)
		}
	}
	return freeRouterID(g.ClusterID, taken)
}

func freeRouterID(clusterID string, taken []int) int {
	id, err := RouterID(clusterID, taken...)
	if err != nil {
		return freeRouterID(clusterID, nil)
	}
	return id
}
