package remediation

import (
	"fmt"
	"slices"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// ControlPlane is what a reboot of one of the control-plane nodes of a cluster could stop.
type ControlPlane struct {
	// Host and Node are what is to be rebooted. Node is empty for a Machine without a Node.
	Host, Node string

	// Management are the control-plane nodes of the cluster that the manager runs in, if the Node is one of them. Nil
	// means that the Node belongs to another cluster.
	Management []ManagementNode

	// Carriers are the nodes that carry the Ironic endpoint of the cluster. Nil where there is none.
	Carriers []Carrier

	// CarriersUnknown says that there is an Ironic endpoint on the nodes, and that they cannot be read.
	CarriersUnknown bool
}

// ManagementNode is a control-plane node of the cluster that the manager runs in.
type ManagementNode struct {
	Name  string
	Ready bool
}

// Carrier is a node that carries the Ironic endpoint.
type Carrier struct {
	Name string

	// Armed says that the node may hold the VIP, Ready that its pods could serve.
	Armed, Ready bool
}

// Protect waits while a reboot of a control-plane node could leave nothing that powers its host on again.
//
//	cluster      other nodes                                          then
//	management   fewer ready than etcd requires                       wait: the manager, BMO or the API would stop
//	any          the node may hold the VIP, no other node could       wait: Ironic would stop
//	any          unknown, and the VIP may be on one of them           wait: as long as that is not known
//	any          anything else                                        go
//
// The VIP is left to keepalived: a holder that is powered off loses it to another armed node. A node of a workload
// cluster without an Ironic endpoint may be the only one: the management cluster powers its host on again.
func Protect(plane ControlPlane) outcome.Outcome {
	if ready, quorum := others(plane), len(plane.Management)/2+1; plane.Management != nil && ready < quorum {
		return outcome.Waiting(infrav1.ManagementClusterAtRiskReason, fmt.Sprintf(
			"Without Node %s, %d of %d control-plane nodes of the management cluster are ready, and etcd requires %d: "+
				"nothing could power BareMetalHost %s on again. Add control-plane nodes, or reboot the host by hand.",
			plane.Node, ready, len(plane.Management), quorum, plane.Host))
	}
	if plane.CarriersUnknown {
		return outcome.Waiting(infrav1.WorkloadClusterUnreachableReason, fmt.Sprintf(
			"The API server of the cluster of Node %s does not answer, and the Node may hold the VIP of the Ironic endpoint. "+
				"Restore the API server, or reboot BareMetalHost %s by hand.", plane.Node, plane.Host))
	}
	if plane.holdsAlone() {
		return outcome.Waiting(infrav1.IronicEndpointAtRiskReason, fmt.Sprintf(
			"Node %s may hold the VIP of the Ironic endpoint, and no other armed Node has ready Ironic pods: nothing could "+
				"power BareMetalHost %s on again. Repair another control-plane node, or reboot the host by hand.",
			plane.Node, plane.Host))
	}
	return outcome.Done()
}

// others is the number of ready management nodes besides the one to reboot.
func others(plane ControlPlane) int {
	count := 0
	for _, node := range plane.Management {
		if node.Ready && node.Name != plane.Node {
			count++
		}
	}
	return count
}

func (p ControlPlane) holdsAlone() bool {
	mayHold := slices.ContainsFunc(p.Carriers, func(c Carrier) bool { return c.Name == p.Node && c.Armed })
	other := slices.ContainsFunc(p.Carriers, func(c Carrier) bool { return c.Name != p.Node && c.Armed && c.Ready })
	return mayHold && !other
}
