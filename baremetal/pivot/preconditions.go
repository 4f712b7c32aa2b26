package pivot

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// refusals names why clusterctl move would refuse to begin, or would not wait until the hosts are paused, and why the
// cluster should not be moved as it is.
func refusals(facts MoveFacts) []string {
	var found []string
	for _, cluster := range facts.Clusters {
		found = append(found, ClusterObstacles(cluster)...)
	}
	for _, class := range facts.PausedClasses {
		found = append(found, fmt.Sprintf(
			"ClusterClass %s is paused: a move is under way or was given up; wait for it, or remove its annotation %s",
			class, clusterv1.PausedAnnotation))
	}
	for _, infra := range facts.Infras {
		// A pause removes the annotation, and is named itself.
		if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated && !facts.isPaused(infra) {
			found = append(found, fmt.Sprintf(
				"Metal3Cluster %s lacks annotation %s, so clusterctl would not wait until its hosts are paused: "+
					"the manager sets it, look at its log", infra.Name, infrav1.BlockMoveAnnotation))
		}
	}
	for _, machine := range facts.consumers() {
		if lost := LostHost(machine); lost != "" {
			found = append(found, fmt.Sprintf("Metal3Machine %s lost its host, which a move does not restore: %s",
				machine.Name, lost))
		}
	}
	return found
}

// LostHost is what a Metal3Machine says of a host that it lost. Empty if it did not lose its host.
func LostHost(machine *infrav1.Metal3Machine) string {
	associated := meta.FindStatusCondition(machine.Status.Conditions, infrav1.HostAssociatedCondition)
	if associated == nil || associated.Reason != infrav1.HostLostReason {
		return ""
	}
	return associated.Message
}

// ClusterObstacles names why a Cluster should not be moved now. MayLeave names a Cluster that is being deleted.
func ClusterObstacles(cluster *clusterv1.Cluster) []string {
	found := scaling(cluster)
	if refusal := Refusal(cluster); refusal != "" && cluster.DeletionTimestamp.IsZero() {
		found = append([]string{refusal}, found...)
	}
	return found
}

// isPaused says whether the Cluster of a Metal3Cluster is paused.
func (f *MoveFacts) isPaused(infra *infrav1.Metal3Cluster) bool {
	return slices.ContainsFunc(f.Clusters, func(cluster *clusterv1.Cluster) bool {
		return cluster.Spec.InfrastructureRef.Name == infra.Name && ptr.Deref(cluster.Spec.Paused, false)
	})
}

// scaling says that a control plane has less available nodes than it has to have. A handover needs nodes, and a control
// plane that is replaced in the middle of a move is replaced in the target.
func scaling(cluster *clusterv1.Cluster) []string {
	plane := cluster.Status.ControlPlane
	if plane == nil || plane.DesiredReplicas == nil {
		return nil
	}
	desired, available := *plane.DesiredReplicas, ptr.Deref(plane.AvailableReplicas, 0)
	if available >= desired && ptr.Deref(plane.Replicas, 0) == desired {
		return nil
	}
	return []string{fmt.Sprintf("the control plane of Cluster %s has %d replicas, %d of them available, and has to have "+
		"%d: wait until it is scaled", cluster.Name, ptr.Deref(plane.Replicas, 0), available, desired)}
}

// Refusal says why clusterctl would not move a Cluster, with the remedy. Empty if it would. It gives the first reason
// only: the others follow from it, or cannot be judged before.
func Refusal(cluster *clusterv1.Cluster) string {
	begun := cluster.Status.Initialization
	_, paused := cluster.Annotations[clusterv1.PausedAnnotation]
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return deletionOf("Cluster", cluster.Name)
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
