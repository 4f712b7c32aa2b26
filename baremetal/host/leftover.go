package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// WithoutLeftovers returns the host without what a machine has left on it, and whether there was anything. CAPM3 leaves
// such things, and so does a user who frees a host by hand. Each of them does harm:
//
//	leftover                             on                           harm
//	owner reference of a Metal3Machine   every host                   the garbage collector deletes the host with the
//	                                                                  machine
//	block-move                           unclaimed hosts, and those   every later clusterctl move waits in vain
//	                                     reserved by node reuse
//	record of a claim                    unclaimed hosts              the host keeps what a machine wrote; see
//	                                                                  withoutRecord
//
// While a Cluster of the namespace is paused, a move may be under way and only the owner references go. A host that a
// move is deleting is not changed. The pause of the provider stays: controllers/hostmove removes it after a move.
func WithoutLeftovers(host *bmov1alpha1.BareMetalHost, clusterPaused bool) (*bmov1alpha1.BareMetalHost, bool) {
	if _, moving := host.Annotations[infrav1.DeleteForMoveAnnotation]; moving {
		return host, false
	}
	clean := host.DeepCopy()
	clean.OwnerReferences = withoutMachineOwners(clean.OwnerReferences)
	unclaimed := host.Spec.ConsumerRef == nil
	if !clusterPaused && (unclaimed || isReservation(host.Spec.ConsumerRef)) {
		delete(clean.Annotations, infrav1.BlockMoveAnnotation)
	}
	if _, kept := host.Labels[infrav1.NodeReuseLabel]; !clusterPaused && unclaimed && !kept {
		clean = withoutRecord(clean)
	}
	return clean, !equality.Semantic.DeepEqual(host.ObjectMeta, clean.ObjectMeta)
}

// withoutRecord removes the record of a claim from an unclaimed host.
//
//	host                            what the record says
//	has an image or a deploy step   is dropped: the host is used as it is now
//	not settled yet                 stays until the host is
//	settled                         is restored
func withoutRecord(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	inUse := host.Spec.Image != nil || host.Spec.CustomDeploy != nil
	if !inUse && !settled(host) {
		return host
	}
	clean := host.DeepCopy()
	if before, known := recall(host); known && !inUse {
		restore(clean, before)
	}
	delete(clean.Annotations, infrav1.ReleaseAnnotation)
	return clean
}
