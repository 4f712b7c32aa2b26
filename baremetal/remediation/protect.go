package remediation

import (
	"fmt"
	"slices"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Surroundings has the nodes and programs that the reboot of a node could stop.
type Surroundings struct {
	// Host and Node are the host to reboot and its Node. Node is empty for a Machine without a Node.
	Host, Node string

	// Management are the nodes of the cluster that the manager runs in, if the Node is one of them. Nil means that the
	// Node belongs to another cluster.
	Management []ManagementNode

	// Operators are the programs of the management cluster that power hosts on, if the Node is one of its nodes.
	Operators []Operator

	// Carriers are the nodes that run the Ironic endpoint of the cluster. Nil without an endpoint.
	Carriers []Carrier

	// CarriersUnknown says that nodes run an Ironic endpoint, and that they cannot be read.
	CarriersUnknown bool
}

// Carrier is a node that runs the Ironic endpoint.
type Carrier struct {
	Name string

	// Armed says that the node may hold the VIP, Ready that its pods could serve.
	Armed, Ready bool

	// Down is the result of IsDown for the machine of the node. Its pods are reported as ready for some time.
	Down bool
}

// IsAlone returns true if the reboot cannot stop a program that powers the host on again.
func (s Surroundings) IsAlone() bool {
	return s.Management == nil && s.Carriers == nil && !s.CarriersUnknown
}

// Includes returns true for the name of a node whose state matters.
func (s Surroundings) Includes(node string) bool {
	return slices.ContainsFunc(s.Management, func(n ManagementNode) bool { return n.Node.Name == node }) ||
		slices.ContainsFunc(s.Carriers, func(c Carrier) bool { return c.Name == node })
}

// WithDown returns the surroundings with the nodes that are down.
func (s Surroundings) WithDown(down map[string]bool) Surroundings {
	s.Management, s.Carriers = slices.Clone(s.Management), slices.Clone(s.Carriers)
	for i := range s.Management {
		s.Management[i].Down = down[s.Management[i].Node.Name]
	}
	for i := range s.Carriers {
		s.Carriers[i].Down = down[s.Carriers[i].Name]
	}
	return s
}

// Protect returns waiting while after a reboot of the node no program could power its host on again.
//
//	node                          other nodes                                  then
//	management, control plane     fewer ready than etcd requires               wait: the API server would stop
//	management                    none runs, or could run, BMO or the manager  wait: BMO or the manager would stop
//	with an Ironic endpoint       the node may hold the VIP, no other could    wait: Ironic would stop
//	with an Ironic endpoint       unknown, and the VIP may be on one of them   wait: until the nodes are known
//	any                           anything else                                done
//
// A node that is down counts as not ready. keepalived moves the VIP: if a holder is powered off, another armed node
// takes it. A node of a workload cluster without an Ironic endpoint may be the only one: the management cluster powers
// its host on again.
func Protect(around Surroundings) outcome.Outcome {
	if risk := around.risk(); risk != "" {
		return outcome.Waiting(infrav1.ManagementClusterAtRiskReason, fmt.Sprintf(
			"Without Node %s, %s: nothing could power BareMetalHost %s on again.%s Add Nodes, or reboot the host by hand.",
			around.Node, risk, around.Host, around.downNodes()))
	}
	if around.CarriersUnknown {
		return outcome.Waiting(infrav1.WorkloadClusterUnreachableReason, fmt.Sprintf(
			"The API server of the cluster of Node %s does not answer, and the Node may hold the VIP of the Ironic endpoint. "+
				"Restore the API server, or reboot BareMetalHost %s by hand.", around.Node, around.Host))
	}
	if around.holdsAlone() {
		return outcome.Waiting(infrav1.IronicEndpointAtRiskReason, fmt.Sprintf(
			"Node %s may hold the VIP of the Ironic endpoint, and no other armed Node has ready Ironic pods: nothing could "+
				"power BareMetalHost %s on again.%s Repair another control-plane node, or reboot the host by hand.",
			around.Node, around.Host, around.downNodes()))
	}
	return outcome.Done()
}

// risk returns what would stop in the management cluster without the node. Empty means nothing.
func (s Surroundings) risk() string {
	if ready, all := s.controlPlane(); all > 0 && ready < all/2+1 {
		return fmt.Sprintf("%d of %d control-plane nodes of the management cluster are ready, and etcd requires %d",
			ready, all, all/2+1)
	}
	for _, operator := range s.Operators {
		if !operator.survives(s.Node, s.Management) {
			return "no ready Node of the management cluster runs, or may run, " + operator.Name
		}
	}
	return ""
}

// controlPlane returns the number of control-plane nodes of the management cluster, and of the ready ones besides the
// node. Both are zero if the node is not one of them.
func (s Surroundings) controlPlane() (ready, all int) {
	own := false
	for _, node := range s.Management {
		if !node.ControlPlane {
			continue
		}
		all++
		switch {
		case node.Node.Name == s.Node:
			own = true
		case node.isReady():
			ready++
		}
	}
	if !own {
		return 0, 0
	}
	return ready, all
}

func (s Surroundings) holdsAlone() bool {
	mayHold := slices.ContainsFunc(s.Carriers, func(c Carrier) bool { return c.Name == s.Node && c.Armed })
	other := slices.ContainsFunc(s.Carriers, func(c Carrier) bool {
		return c.Name != s.Node && c.Armed && c.Ready && !c.Down
	})
	return mayHold && !other
}

// downNodes returns a sentence for a message about the other nodes that are down. Empty if there are none.
func (s Surroundings) downNodes() string {
	var names []string
	for _, node := range s.Management {
		if node.Down {
			names = append(names, node.Node.Name)
		}
	}
	for _, carrier := range s.Carriers {
		if carrier.Down {
			names = append(names, carrier.Name)
		}
	}
	slices.Sort(names)
	switch names = slices.Compact(names); len(names) {
	case 0:
		return ""
	case 1:
		return " Node " + names[0] + " is off or being rebooted."
	default:
		return " Nodes " + outcome.Names(names) + " are off or being rebooted."
	}
}
