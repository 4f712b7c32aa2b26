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

// anotherAddress is the remedy for most address conflicts.
const anotherAddress = "choose another one in spec.ironic.endpoint.virtualIPs"

// Surroundings are the objects that may conflict with the Ironic endpoint of a cluster. Functions do not change them.
type Surroundings struct {
	// Own is the Metal3Cluster with the endpoint.
	Own *infrav1.Metal3Cluster

	// APIServer is the address or the name of the API server of the cluster. Empty if unknown.
	APIServer string

	// Clusters are the Metal3Clusters of all namespaces. They may include Own.
	Clusters []infrav1.Metal3Cluster

	// Hosts and Machines are those of the cluster.
	Hosts    []*bmov1alpha1.BareMetalHost
	Machines []*infrav1.Metal3Machine
}

// Conflict is a conflicting user of a VIP or of the virtual router ID.
type Conflict struct {
	// Reason is the reason of the condition that reports the conflict.
	Reason string

	// Message names the conflicting user and the remedy.
	Message string
}

// Conflicts returns the conflicting users of the VIPs and of the virtual router ID of an endpoint: VIPs first, then in
// the order of the messages.
//
//	user                              uses                                           conflict
//	the cluster itself                a VIP for its API server                       VIP
//	a host of the cluster             a VIP, at its inspection                       VIP
//	a Metal3Machine of the cluster    a VIP, and its host was not named              VIP
//	another Metal3Cluster             a VIP for an API server, DHCP range or peer    VIP
//	                                  a VIP, another clusterID                       VIP
//	                                  a VIP, same clusterID, same router             none: shared on purpose
//	                                  a VIP, same clusterID, other router            VIP: two groups would hold it
//	                                  the router ID, on the same network             router ID
//	a deleted or moved Metal3Cluster  anything                                       none
//
// Two clusters with overlapping networks share one network: the manager reaches both endpoints, so an address
// identifies one machine. Addresses of Nodes are not compared, because the VIP holder may list the VIP. An inspection
// runs before a node of the cluster can hold the VIP.
func Conflicts(around Surroundings) []Conflict {
	own := routerOf(around.Own)
	addresses, routers := inventoryConflicts(own, around), []string(nil)
	if address, is := sharedAddress(own, around.APIServer); is {
		addresses = append(addresses, fmt.Sprintf("The API server of Metal3Cluster %s answers on %s too: %s",
			nameOf(around.Own), address, anotherAddress))
	}
	for i := range around.Clusters {
		other := &around.Clusters[i]
		if isSame(around.Own, other) || infrav1.IsGoing(other) {
			continue
		}
		router := routerOf(other)
		addresses = append(addresses, addressConflicts(own, router, other)...)
		if own.ID() == router.ID() && own.Reaches(router) && !own.SharesEndpoint(router) {
			routers = append(routers, fmt.Sprintf("Metal3Cluster %s uses virtual router ID %d on this network too: set "+
				"spec.ironic.vrrp.virtualRouterID of one of the two to an unused ID, and roll its control plane out",
				nameOf(other), own.ID()))
		}
	}
	return append(sorted(infrav1.VirtualIPTakenReason, addresses), sorted(infrav1.VirtualRouterIDTakenReason, routers)...)
}

func sorted(reason string, messages []string) []Conflict {
	slices.Sort(messages)
	conflicts := make([]Conflict, 0, len(messages))
	for _, message := range messages {
		conflicts = append(conflicts, Conflict{reason, message})
	}
	return conflicts
}

// inventoryConflicts reports hosts and Metal3Machines of the cluster that have a VIP. A Metal3Machine repeats the
// addresses of its host and is left out if the host was reported.
func inventoryConflicts(own vip.Group, around Surroundings) []string {
	var messages []string
	named := map[string]bool{}
	for _, candidate := range around.Hosts {
		address, is := inspectedAddress(own, candidate)
		if !is {
			continue
		}
		messages = append(messages, fmt.Sprintf("Host %s had %s when it was inspected: remove the address from it and have "+
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

// addressConflicts reports how another cluster uses the VIPs.
func addressConflicts(own, router vip.Group, other *infrav1.Metal3Cluster) []string {
	var messages []string
	report := func(format string, values ...any) {
		messages = append(messages, "Metal3Cluster "+nameOf(other)+" "+fmt.Sprintf(format, values...)+": "+anotherAddress)
	}
	if address, is := sharedAddress(own, other.Spec.ControlPlaneEndpoint.Host); is {
		report("has its API server on %s", address)
	}
	for _, address := range own.Addresses {
		switch {
		case slices.Contains(router.Peers, address):
			report("has %s among spec.ironic.vrrp.peers, as the own address of a node", address)
		case handsOut(other.Spec.Ironic, address):
			report("hands %s out with spec.ironic.dhcp", address)
		case !router.Shares(address):
		case !own.SharesEndpoint(router):
			report("has %s for its own Ironic endpoint", address)
		case own.ID() != router.ID() || own.Mode != router.Mode:
			messages = append(messages, fmt.Sprintf("Metal3Cluster %s has %s and clusterID %s too, in mode %s with virtual "+
				"router ID %d instead of mode %s with %d, so that both hold it: give both the same spec.ironic.vrrp",
				nameOf(other), address, own.ClusterID, router.Mode, router.ID(), own.Mode, own.ID()))
		}
	}
	return messages
}

// ChooseRouterID returns the virtual router ID for a cluster without one: the default of its clusterID, unless another
// cluster on its network has that ID. Of several clusters without an ID, the oldest chooses first.
func ChooseRouterID(around Surroundings) int32 {
	candidates := []*infrav1.Metal3Cluster{around.Own}
	for i := range around.Clusters {
		if other := &around.Clusters[i]; other.Spec.Ironic != nil && !isSame(around.Own, other) {
			candidates = append(candidates, other)
		}
	}
	slices.SortFunc(candidates, func(a, b *infrav1.Metal3Cluster) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(nameOf(a), nameOf(b)))
	})
	groups := make([]vip.Group, len(candidates))
	for i, candidate := range candidates {
		groups[i] = routerOf(candidate)
	}
	//nolint:gosec // A router ID is at most 255.
	return int32(vip.RouterIDs(groups)[slices.Index(candidates, around.Own)])
}

// routerOf returns the virtual router of a cluster. It is empty without an endpoint.
func routerOf(cluster *infrav1.Metal3Cluster) vip.Group {
	if cluster.Spec.Ironic == nil {
		return vip.Group{}
	}
	return groupOf(withDefaults(*cluster.Spec.Ironic))
}

// groupOf returns the virtual router of a specification with all defaults. It leaves invalid values out, which
// admission refuses and rendering reports.
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

// sharedAddress parses a text and returns true if it is a VIP of the group. A name is no VIP.
func sharedAddress(group vip.Group, text string) (netip.Addr, bool) {
	address, err := netip.ParseAddr(text)
	return address, err == nil && group.Shares(address)
}

func handsOut(described *infrav1.Ironic, address netip.Addr) bool {
	if described == nil || described.DHCP == nil {
		return false
	}
	ranges := [][]string{{described.DHCP.RangeBegin, described.DHCP.RangeEnd}}
	for _, extra := range described.DHCP.ExtraRanges {
		ranges = append(ranges, []string{extra.RangeBegin, extra.RangeEnd})
	}
	return slices.ContainsFunc(ranges, func(texts []string) bool {
		ends := readable(texts)
		return len(ends) == 2 && ends[0].Is4() == address.Is4() && !address.Less(ends[0]) && !ends[1].Less(address)
	})
}

func isSame(a, b *infrav1.Metal3Cluster) bool { return a.Namespace == b.Namespace && a.Name == b.Name }

func nameOf(cluster *infrav1.Metal3Cluster) string { return cluster.Namespace + "/" + cluster.Name }
