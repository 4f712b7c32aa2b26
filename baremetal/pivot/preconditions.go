package pivot

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// refusals returns why clusterctl move would not begin, or would not wait until the hosts are paused. It also returns
// why the state of the cluster does not permit a move.
func refusals(facts MoveFacts) []Obstacle {
	var found []Obstacle
	for _, cluster := range facts.Clusters {
		found = append(found, ClusterObstacles(cluster)...)
	}
	for _, class := range facts.PausedClasses {
		found = append(found, AboutNamed("ClusterClass", facts.Namespace, class).Blocks(CodePaused,
			fmt.Sprintf("a move is under way or was given up; wait for it, or remove its annotation %s",
				clusterv1.PausedAnnotation), "ClusterClass %s is paused", class))
	}
	for _, infra := range facts.Infras {
		// The annotation is also removed from a paused Cluster, which is an obstacle itself.
		if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated && !facts.isPaused(infra) &&
			!facts.hasOtherGate(infra) {
			found = append(found, About("Metal3Cluster", infra).Blocks(CodeGateMissing, gateRemedy(infra),
				"Metal3Cluster %s lacks annotation %s, so clusterctl would not wait until its hosts are paused",
				infra.Name, infrav1.BlockMoveAnnotation))
		}
	}
	for _, object := range facts.Naming {
		machine, is := object.(*infrav1.Metal3Machine)
		if !is {
			continue
		}
		if lost := LostHost(machine); lost != "" {
			found = append(found, About("Metal3Machine", machine).Blocks(CodeHostLost, lost,
				"Metal3Machine %s lost its host, which a move does not restore", machine.Name))
		}
	}
	return found
}

// gateRemedy returns how a Metal3Cluster gets block-move.
func gateRemedy(infra *infrav1.Metal3Cluster) string {
	if isExternal(infra) {
		return fmt.Sprintf("an external system manages it; remove its annotation %s, and the manager sets block-move",
			clusterv1.ManagedByAnnotation)
	}
	return "the manager sets it; see its log"
}

// hasOtherGate returns true for a Metal3Cluster that an external system manages, in a namespace with another one that
// has block-move: clusterctl then waits until all hosts of the namespace are paused.
func (f *MoveFacts) hasOtherGate(infra *infrav1.Metal3Cluster) bool {
	return isExternal(infra) && slices.ContainsFunc(f.Infras, func(other *infrav1.Metal3Cluster) bool {
		_, gated := other.Annotations[infrav1.BlockMoveAnnotation]
		return gated
	})
}

// LostHost returns the message of a Metal3Machine that lost its host. Empty for others.
func LostHost(machine *infrav1.Metal3Machine) string {
	associated := meta.FindStatusCondition(machine.Status.Conditions, infrav1.HostAssociatedCondition)
	if associated == nil || associated.Reason != infrav1.HostLostReason {
		return ""
	}
	return associated.Message
}

// ClusterObstacles returns why a Cluster should not be moved now. MayLeave returns a Cluster that is being deleted.
func ClusterObstacles(cluster *clusterv1.Cluster) []Obstacle {
	if !cluster.DeletionTimestamp.IsZero() {
		return scaling(cluster)
	}
	return slices.Concat(refused(cluster), scaling(cluster))
}

// isPaused returns true if the Cluster of a Metal3Cluster is paused.
func (f *MoveFacts) isPaused(infra *infrav1.Metal3Cluster) bool {
	return slices.ContainsFunc(f.Clusters, func(cluster *clusterv1.Cluster) bool {
		return cluster.Spec.InfrastructureRef.Name == infra.Name && ptr.Deref(cluster.Spec.Paused, false)
	})
}

// scaling returns true if a control plane has fewer available replicas than required. A handover requires nodes, and a
// control plane that rolls out during a move continues in the target.
func scaling(cluster *clusterv1.Cluster) []Obstacle {
	plane := cluster.Status.ControlPlane
	if plane == nil || plane.DesiredReplicas == nil {
		return nil
	}
	desired, available := *plane.DesiredReplicas, ptr.Deref(plane.AvailableReplicas, 0)
	if available >= desired && ptr.Deref(plane.Replicas, 0) == desired {
		return nil
	}
	return []Obstacle{About("Cluster", cluster).Blocks(CodeControlPlaneScaling, "wait until it is scaled",
		"the control plane of Cluster %s has %d replicas, %d of them available, and has to have %d",
		cluster.Name, ptr.Deref(plane.Replicas, 0), available, desired)}
}

// UnpauseRemedy returns what ends the pause of a Cluster of a namespace.
func UnpauseRemedy(namespace string) string {
	return "wait for a move in progress; complete an interrupted move with pivot resume, or abort it with pivot abort; " +
		"without a move, use " + pluginCommand("unpause", namespace)
}

// refused returns the first reason why clusterctl would not move a Cluster that is not being deleted. Further reasons
// are consequences of the first, or are unknown.
func refused(cluster *clusterv1.Cluster) []Obstacle {
	begun := cluster.Status.Initialization
	_, paused := cluster.Annotations[clusterv1.PausedAnnotation]
	blocks := func(code Code, remedy, format string) []Obstacle {
		return []Obstacle{About("Cluster", cluster).Blocks(code, remedy, format, cluster.Name)}
	}
	switch {
	case ptr.Deref(cluster.Spec.Paused, false):
		return blocks(CodePaused, UnpauseRemedy(cluster.Namespace), "Cluster %s is paused")
	case paused:
		return blocks(CodePaused, "remove its annotation "+clusterv1.PausedAnnotation, "Cluster %s is paused")
	case !ptr.Deref(begun.InfrastructureProvisioned, false):
		return blocks(CodeNotProvisioned, "wait for it", "the infrastructure of Cluster %s is not provisioned")
	case !controlPlaneInitialized(cluster):
		return blocks(CodeNotInitialized, "wait for it", "the control plane of Cluster %s is not initialized")
	default:
		return nil
	}
}

// controlPlaneInitialized is the check of clusterctl: a control plane of Machines only has just the condition.
func controlPlaneInitialized(cluster *clusterv1.Cluster) bool {
	return meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition) &&
		(!cluster.Spec.ControlPlaneRef.IsDefined() ||
			ptr.Deref(cluster.Status.Initialization.ControlPlaneInitialized, false))
}
