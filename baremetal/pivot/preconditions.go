package pivot

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// MoveScope is what lies in a namespace that clusterctl is asked to move, as far as it decides whether clusterctl
// begins at all, and whether it waits for this provider.
type MoveScope struct {
	// Clusters, Machines and Metal3Clusters of the namespace.
	Clusters []*clusterv1.Cluster
	Machines []*clusterv1.Machine
	Infras   []*infrav1.Metal3Cluster

	// PausedClasses are the names of the ClusterClasses of the namespace that are paused.
	PausedClasses []string

	// Hosts is how many hosts there are.
	Hosts int

	// Around are the Clusters that decide about the hosts.
	Around []Neighbour
}

// Preconditions names why clusterctl move would refuse to begin, or would not wait until the hosts are paused, each
// with its remedy. It is what Obstacles cannot see, because a Metal3Cluster reports those for itself while nothing is
// paused.
func Preconditions(scope MoveScope) []string {
	found := nothingToMove(scope)
	for _, cluster := range scope.Clusters {
		if refusal := clusterRefusal(cluster); refusal != "" {
			found = append(found, refusal)
		}
	}
	for _, class := range scope.PausedClasses {
		found = append(found, fmt.Sprintf(
			"ClusterClass %s is paused: a move is under way or was given up; wait for it, or remove its annotation %s",
			class, clusterv1.PausedAnnotation))
	}
	for _, infra := range scope.Infras {
		if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated {
			found = append(found, fmt.Sprintf(
				"Metal3Cluster %s lacks annotation %s, so clusterctl would not wait until its hosts are paused: "+
					"the manager sets it, look at its log", infra.Name, infrav1.BlockMoveAnnotation))
		}
	}
	for _, machine := range scope.Machines {
		if !machine.DeletionTimestamp.IsZero() {
			found = append(found, fmt.Sprintf(
				"Machine %s is being deleted, which a move would forget: wait until it is gone", machine.Name))
		}
	}
	return found
}

func nothingToMove(scope MoveScope) []string {
	switch {
	case len(scope.Around) > 0:
		return nil
	case scope.Hosts > 0:
		return []string{fmt.Sprintf("no Cluster has a Metal3Cluster, so nobody pauses the %d hosts and keeps their status: "+
			"move them together with a Cluster", scope.Hosts)}
	default:
		return []string{"no Cluster has a Metal3Cluster, and there is no host: name another namespace with --namespace"}
	}
}

// clusterRefusal gives the first reason only: the others follow from it, or cannot be judged before.
func clusterRefusal(cluster *clusterv1.Cluster) string {
	begun := cluster.Status.Initialization
	_, paused := cluster.Annotations[clusterv1.PausedAnnotation]
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Cluster %s is being deleted, which a move would forget: wait until it is gone", cluster.Name)
	case ptr.Deref(cluster.Spec.Paused, false):
		return fmt.Sprintf("Cluster %s is paused: a move is under way or was given up; wait for it, or unpause the Cluster",
			cluster.Name)
	case paused:
		return fmt.Sprintf("Cluster %s is paused: remove its annotation %s", cluster.Name, clusterv1.PausedAnnotation)
	case !ptr.Deref(begun.InfrastructureProvisioned, false):
		return fmt.Sprintf("the infrastructure of Cluster %s is not provisioned: wait for it", cluster.Name)
	case !controlPlaneInitialized(cluster):
		return fmt.Sprintf("the control plane of Cluster %s is not initialized: wait for it", cluster.Name)
	default:
		return ""
	}
}

// controlPlaneInitialized judges as clusterctl does: a control plane that is made of Machines alone has the condition
// only.
func controlPlaneInitialized(cluster *clusterv1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition) &&
		(!cluster.Spec.ControlPlaneRef.IsDefined() ||
			ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false))
}
