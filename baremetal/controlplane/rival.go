package controlplane

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// anotherAddress is what ends most disputes about an address.
const anotherAddress = "choose another one in spec.ironic.endpoint.virtualIPs"

// Surroundings are those who may use what the Ironic endpoint of a cluster needs for itself. Nothing in it is changed.
type Surroundings struct {
	// Own is the Metal3Cluster with the endpoint.
	Own *infrav1.Metal3Cluster

	// APIServer is where the API server of the cluster answers: an address or a name. Empty while nobody said so.
	APIServer string

	// Clusters are all Metal3Clusters that can be seen, the own one among them or not.
	Clusters []infrav1.Metal3Cluster

	// Hosts and Machines are those of the cluster.
	Hosts    []*bmov1alpha1.BareMetalHost
	Machines []*infrav1.Metal3Machine
}

// Rival is somebody who uses the same.
type Rival struct {
	// Reason of the condition that reports it.
	Reason string

	// Message names it and the remedy.
	Message string
}

// Rivals finds those who use a virtual address or the virtual router ID of an endpoint too: first those for addresses,
// then in the order of their messages.
//
//	who                               what                                           rival
//	the cluster itself                its API server has a virtual address           for the address
//	a host of the cluster             had one when it was inspected                  for the address
//	a Metal3Machine of the cluster    reports one, and its host was not named        for the address
//	another Metal3Cluster             API server, DHCP range or peer has one         for the address
//	                                  a virtual address, another clusterID           for the address
//	                                  the same, same clusterID, same router          none: shared on purpose
//	                                  the same, same clusterID, other router         for the address: two groups hold it
//	                                  the router ID, and hears it                    for the router ID
//	one that is deleted or moved away anything                                       none
//
// Two clusters whose networks overlap are on one network: the manager looks at the endpoints of both, so an address can
// mean one machine only. Nodes are not asked for their addresses, since the holder of a virtual address may have it in
// its list. An inspection runs before anything could hold the address.
func Rivals(around Surroundings) []Rival {
	own := routerOf(around.Own)
	addresses, routers := inventoryRivals(own, around), []string(nil)
	if address, is := sharedAddress(own, around.APIServer); is {
		addresses = append(addresses, fmt.Sprintf("The API server of Metal3Cluster %s answers on %s too: %s",
			nameOf(around.Own), address, anotherAddress))
	}
	for i := range around.Clusters {
		other := &around.Clusters[i]
		if isSame(around.Own, other) || isLeaving(other) {
			continue
		}
		rival := routerOf(other)
		addresses = append(addresses, addressRivals(own, rival, other)...)
		if own.ID() == rival.ID() && own.Hears(rival) && !own.IsOneWith(rival) {
			routers = append(routers, fmt.Sprintf("Metal3Cluster %s uses virtual router ID %d on this network too: set "+
				"spec.ironic.vrrp.virtualRouterID of one of the two to an ID that nobody has, and roll its control plane out",
				nameOf(other), own.ID()))
		}
	}
	return append(sorted(infrav1.VirtualIPTakenReason, addresses), sorted(infrav1.VirtualRouterIDTakenReason, routers)...)
}

func sorted(reason string, messages []string) []Rival {
	slices.Sort(messages)
	rivals := make([]Rival, 0, len(messages))
	for _, message := range messages {
		rivals = append(rivals, Rival{reason, message})
	}
	return rivals
}

// inventoryRivals are the hosts and Metal3Machines of the cluster. What a host reports, its machine repeats.
func inventoryRivals(own vip.Group, around Surroundings) []string {
	var messages []string
	named := map[string]bool{}
	for _, candidate := range around.Hosts {
		address, is := inspectedAddress(own, candidate)
		if !is {
			continue
		}
		messages = append(messages, fmt.Sprintf("Host %s had %s when it was inspected: take the address from it and have "+
			"it inspected again, or %s", candidate.Name, address, anotherAddress))
		if machine, held := host.Consumer(candidate); held {
			named[machine] = true
		}
	}
	for _, machine := range around.Machines {
		for _, found := range machine.Status.Addresses {
			if address, is := sharedAddress(own, found.Address); is && !named[machine.Name] {
				messages = append(messages, fmt.Sprintf("Metal3Machine %s has %s: give its host another address, or %s",
					machine.Name, address, anotherAddress))
			}
		}
	}
	return messages
}

func inspectedAddress(own vip.Group, candidate *bmov1alpha1.BareMetalHost) (netip.Addr, bool) {
	if details := candidate.Status.HardwareDetails; details != nil {
		for i := range details.NIC {
			if address, is := sharedAddress(own, details.NIC[i].IP); is {
				return address, true
			}
		}
	}
	return netip.Addr{}, false
}

// addressRivals says what another cluster uses virtual addresses for.
func addressRivals(own, rival vip.Group, other *infrav1.Metal3Cluster) []string {
	var messages []string
	say := func(format string, values ...any) {
		messages = append(messages, "Metal3Cluster "+nameOf(other)+" "+fmt.Sprintf(format, values...)+": "+anotherAddress)
	}
	if address, is := sharedAddress(own, other.Spec.ControlPlaneEndpoint.Host); is {
		say("has its API server on %s", address)
	}
	for _, address := range own.Addresses {
		switch {
		case slices.Contains(rival.Peers, address):
			say("has %s among spec.ironic.vrrp.peers, as the own address of a node", address)
		case handsOut(other.Spec.Ironic, address):
			say("hands %s out with spec.ironic.dhcp", address)
		case !rival.Shares(address):
		case !own.IsOneWith(rival):
			say("has %s for its own Ironic endpoint", address)
		case own.ID() != rival.ID() || own.Mode != rival.Mode:
			messages = append(messages, fmt.Sprintf("Metal3Cluster %s has %s and clusterID %s too, in mode %s with virtual "+
				"router ID %d instead of mode %s with %d, so that both hold it: give both the same spec.ironic.vrrp",
				nameOf(other), address, own.ClusterID, rival.Mode, rival.ID(), own.Mode, own.ID()))
		}
	}
	return messages
}

// ChooseRouterID chooses the virtual router ID of a cluster that has none yet: the one of its clusterID, unless another
// cluster on its network has that. Of several without one, the oldest chooses first.
func ChooseRouterID(around Surroundings) int32 {
	contenders := []*infrav1.Metal3Cluster{around.Own}
	for i := range around.Clusters {
		if other := &around.Clusters[i]; other.Spec.Ironic != nil && !isSame(around.Own, other) {
			contenders = append(contenders, other)
		}
	}
	slices.SortFunc(contenders, func(a, b *infrav1.Metal3Cluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(nameOf(a), nameOf(b)))
	})
	groups := make([]vip.Group, len(contenders))
	for i, contender := range contenders {
		groups[i] = routerOf(contender)
	}
	//nolint:gosec // A router ID is at most 255.
	return int32(vip.RouterIDs(groups)[slices.Index(contenders, around.Own)])
}

// routerOf is the virtual router of a cluster, which is empty without an endpoint.
func routerOf(cluster *infrav1.Metal3Cluster) vip.Group {
	if cluster.Spec.Ironic == nil {
		return vip.Group{}
	}
	return groupOf(withDefaults(*cluster.Spec.Ironic))
}

// groupOf reads the virtual router of a description with all defaults. What cannot be read is left out: admission
// refuses it, and whoever renders it complains.
func groupOf(described infrav1.Ironic) vip.Group {
	group := vip.Group{
		ClusterID: described.ClusterID, RouterID: int(described.VRRP.VirtualRouterID), Mode: vip.Mode(described.VRRP.Mode),
		Addresses: readable(described.Endpoint.VirtualIPs),
	}
	if group.Mode == vip.Unicast {
		group.Peers = readable(described.VRRP.Peers)
	}
	for _, text := range described.Endpoint.CIDRs {
		if network, err := netip.ParsePrefix(text); err == nil {
			group.Networks = append(group.Networks, network.Masked())
		}
	}
	return group
}

func readable(texts []string) []netip.Addr {
	var addresses []netip.Addr
	for _, text := range texts {
		if address, err := netip.ParseAddr(text); err == nil {
			addresses = append(addresses, address)
		}
	}
	return addresses
}

// sharedAddress reads a text and says whether it is one of the addresses of the group. A name is none.
func sharedAddress(group vip.Group, text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	return address, err == nil && group.Shares(address)
}

func handsOut(described *infrav1.Ironic, address netip.Addr) bool {
	if described == nil || described.DHCP == nil {
		return false
	}
	ends := readable([]string{described.DHCP.RangeBegin, described.DHCP.RangeEnd})
	return len(ends) == 2 && ends[0].Is4() == address.Is4() && !address.Less(ends[0]) && !ends[1].Less(address)
}

func isSame(a, b *infrav1.Metal3Cluster) bool { return a.Namespace == b.Namespace && a.Name == b.Name }

// isLeaving says whether a cluster is on its way out: what it uses will be free.
func isLeaving(cluster *infrav1.Metal3Cluster) bool {
	_, moved := cluster.Annotations[infrav1.DeleteForMoveAnnotation]
	return moved || !cluster.DeletionTimestamp.IsZero()
}

func nameOf(cluster *infrav1.Metal3Cluster) string { return cluster.Namespace + "/" + cluster.Name }
