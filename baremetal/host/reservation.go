package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// WithoutReservation returns the released host, and whether it was reserved for a machine of the Cluster. It is for a
// Cluster that is being deleted: no machine will claim its reserved hosts.
//
//	host                                    result
//	not reserved, or for another Cluster    not reserved
//	being moved, or paused for a move       not reserved: it may belong to the Cluster in the other management cluster
//	reserved for the Cluster                released, with the recorded values restored
func WithoutReservation(host *bmov1alpha1.BareMetalHost, namespace, cluster string,
) (without *bmov1alpha1.BareMetalHost, reserved bool) {
	if infrav1.IsLeaving(host) || pausedByProvider(host) || !consumedByCluster(host, namespace, cluster) {
		return host, false
	}
	return released(host, Release{}), true
}

// IsReservedWhilePaused returns true for a host that WithoutReservation does not release because it is paused for a
// move.
func IsReservedWhilePaused(host *bmov1alpha1.BareMetalHost, namespace, cluster string) bool {
	return pausedByProvider(host) && !infrav1.IsLeaving(host) && consumedByCluster(host, namespace, cluster)
}

// isReservation returns true if the consumer is a Cluster: the host is reserved for the next machine of an owner.
func isReservation(ref *corev1.ObjectReference) bool {
	return ref != nil && ref.Kind == clusterv1.ClusterKind && groupOf(ref) == clusterv1.GroupVersion.Group
}

func consumedByCluster(host *bmov1alpha1.BareMetalHost, namespace, cluster string) bool {
	ref := host.Spec.ConsumerRef
	return isReservation(ref) && ref.Name == cluster && ref.Namespace == namespace
}

// ReservedFor returns true if the host is reserved for the owner in Wanted.
func ReservedFor(host *bmov1alpha1.BareMetalHost, wanted Wanted) bool {
	label := host.Labels[infrav1.NodeReuseLabel]
	if label == "" || label != wanted.Owner {
		return false
	}
	return host.Spec.ConsumerRef == nil || consumedByCluster(host, wanted.Namespace, wanted.Cluster)
}
