package pivot

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// refusals names why clusterctl move would refuse to begin, or would not wait until the hosts are paused.
func refusals(facts MoveFacts) []string {
	var found []string
	for _, cluster := range facts.Clusters {
		// MayLeave names a Cluster that is being deleted.
		if refusal := Refusal(cluster); refusal != "" && cluster.DeletionTimestamp.IsZero() {
			found = append(found, refusal)
		}
	}
	for _, class := range facts.PausedClasses {
		found = append(found, fmt.Sprintf(
			"ClusterClass %s is paused: a move is under way or was given up; wait for it, or remove its annotation %s",
			class, clusterv1.PausedAnnotation))
	}
	for _, infra := range facts.Infras {
		if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated {
			found = append(found, fmt.Sprintf(
				"Metal3Cluster %s lacks annotation %s, so clusterctl would not wait until its hosts are paused: "+
					"the manager sets it, look at its log", infra.Name, infrav1.BlockMoveAnnotation))
		}
	}
	return found
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
