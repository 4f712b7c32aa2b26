package pivot

import (
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// DemotionFacts are the facts that decide whether the Ironic of the management cluster can be scaled down, so that the
// control plane takes the VIP.
type DemotionFacts struct {
	// Infra is the Metal3Cluster with the endpoint, from the cluster that manages the hosts.
	Infra *infrav1.Metal3Cluster

	// Paused is true if the Cluster is paused.
	Paused bool

	// Hosts are all hosts that BMO of that cluster manages.
	Hosts []*bmov1alpha1.BareMetalHost
}

// DemotionObstacles returns what fails or is lost if the Ironic of the management cluster is scaled down now, with the
// remedies. None means that a control-plane node takes the VIP and no operation is interrupted.
//
//	seen                                  obstacle
//	Cluster is paused                     a move is not complete: the manager arms no node and enqueues no host
//	endpoint foreign, or not probed       the Ironic that answers would not be replaced by that of the cluster
//	held by the control plane             no further ones: the management cluster does not hold the VIP
//	no node that is armed and ready       no node would hold the VIP
//	takeover Manual                       only the files on the nodes show whether they are armed
//	busy hosts                            the next Ironic has no record of the operations
func DemotionObstacles(facts DemotionFacts) []Obstacle {
	about := About("Metal3Cluster", facts.Infra)
	var found []Obstacle
	if facts.Paused {
		found = append(found, about.Blocks(CodePaused, "complete the move with pivot resume, or use pivot unpause",
			"the Cluster of Metal3Cluster %s is paused", facts.Infra.Name))
	}
	if endpoint := EndpointOutcome(facts.Infra); !endpoint.IsDone() {
		return append(found, about.Blocks(CodeEndpointNotReady, "", "Ironic endpoint: %s", endpoint.Message))
	}
	if holder := Holder(facts.Infra); holder != nil && holder.Kind == infrav1.HolderControlPlane {
		return found
	}
	found = append(found, armedObstacles(facts.Infra)...)
	for _, host := range facts.Hosts {
		if busy := Busy(host); busy != "" {
			found = append(found, About(hostKind, host).Blocks(CodeHostBusy,
				"wait until it is done, because the next Ironic would begin the operation again",
				"host %s/%s is %s", host.Namespace, host.Name, busy))
		}
	}
	return found
}

// EndpointOutcome returns the outcome of the probe of the Ironic endpoint, from its condition. It is Done if this
// provider manages no endpoint.
func EndpointOutcome(infra *infrav1.Metal3Cluster) outcome.Outcome {
	if Verified(infra) {
		return outcome.Done()
	}
	condition := meta.FindStatusCondition(infra.Status.Conditions, infrav1.IronicEndpointReadyCondition)
	if condition == nil {
		return outcome.Waiting(infrav1.NotYetObservedReason, fmt.Sprintf(
			"the manager has not probed the endpoint of Metal3Cluster %s: check that it runs", infra.Name))
	}
	return outcome.Waiting(condition.Reason, condition.Message)
}

// BareNodes returns the control-plane nodes without the pods of the Ironic endpoint, from the status of their Cluster,
// or why they are unknown. Both are empty without an endpoint.
func BareNodes(infra *infrav1.Metal3Cluster) (bare []string, unknown string) {
	if infra.Spec.Ironic == nil {
		return nil, ""
	}
	if infra.Status.Ironic == nil || len(infra.Status.Ironic.Nodes) == 0 {
		return nil, fmt.Sprintf(
			"the manager has seen no node of Metal3Cluster %s: check that the API server of the cluster answers", infra.Name)
	}
	for _, node := range infra.Status.Ironic.Nodes {
		if node.ConfigHash == "" {
			bare = append(bare, node.Name)
		}
	}
	return bare, ""
}

// armedObstacles returns nothing if at least one node can take the VIP.
func armedObstacles(infra *infrav1.Metal3Cluster) []Obstacle {
	about := About("Metal3Cluster", infra)
	if infra.Spec.Ironic == nil {
		return []Obstacle{about.Blocks(CodeNoEndpoint, "no node can take the VIP",
			"Metal3Cluster %s has no spec.ironic", infra.Name)}
	}
	if infra.Spec.Ironic.Takeover == infrav1.TakeoverManual {
		return []Obstacle{about.Blocks(CodeTakeoverManual,
			"check on the nodes that at least one is armed by its file, then use --force",
			"Metal3Cluster %s has takeover Manual", infra.Name)}
	}
	if _, unknown := BareNodes(infra); unknown != "" {
		return []Obstacle{about.Blocks(CodeNodesUnknown, "", "%s", unknown)}
	}
	var found []Obstacle
	for _, node := range infra.Status.Ironic.Nodes {
		about := AboutNamed("Node", "", node.Name)
		armed := ptr.Deref(node.Armed, false) || infra.Spec.Ironic.Takeover == infrav1.TakeoverAlways
		switch {
		case armed && ptr.Deref(node.PodsReady, false):
			return nil
		case armed:
			found = append(found, about.Blocks(CodePodsNotReady, "check these pods",
				"node %s is armed, and its pods of the Ironic endpoint are not ready", node.Name))
		default:
			found = append(found, about.Blocks(CodeNodeNotArmed,
				"the manager arms it once the cluster manages itself; move the cluster first",
				"node %s is not armed", node.Name))
		}
	}
	return found
}
