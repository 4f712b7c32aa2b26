package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// WithoutLeftovers returns the host without the metadata that a machine left on it, and whether there was any. CAPM3
// leaves such metadata, and so does a user who removes a consumerRef.
//
//	leftover                            removed from              effect if it stays
//	ownerReference of a Metal3Machine   every host                the garbage collector deletes the host with the machine
//	block-move                          unclaimed and reserved    every later clusterctl move waits forever
//	                                    hosts
//	record of a claim                   unclaimed hosts           the host keeps the fields that a machine set; see
//	                                                              withoutRecord
//
// While a Cluster of the namespace is paused, a move may run, so WithoutLeftovers removes only ownerReferences. It does
// not change a host that a move deletes. It keeps the pause of the provider, which controllers/hostmove removes. It
// keeps the record of a claim if recorded says that a Metal3Machine has recorded the host.
func WithoutLeftovers(
	host *bmov1alpha1.BareMetalHost, clusterPaused, recorded bool,
) (*bmov1alpha1.BareMetalHost, bool) {
	if infrav1.IsLeaving(host) {
		return host, false
	}
	clean := host.DeepCopy()
	clean.OwnerReferences = withoutMachineOwners(clean.OwnerReferences)
	unclaimed := host.Spec.ConsumerRef == nil
	if !clusterPaused && (unclaimed || isReservation(host.Spec.ConsumerRef)) {
		delete(clean.Annotations, infrav1.BlockMoveAnnotation)
	}
	if _, kept := host.Labels[infrav1.NodeReuseLabel]; !clusterPaused && !recorded && unclaimed && !kept {
		clean = withoutRecord(clean)
	}
	return clean, !equality.Semantic.DeepEqual(host.ObjectMeta, clean.ObjectMeta)
}

// withoutRecord removes the record of a claim from an unclaimed host.
//
//	host                            record
//	has an image or a deploy step   is removed, its values are not restored
//	not deprovisioned yet           is kept until the host is deprovisioned
//	deprovisioned                   is removed, its values are restored
func withoutRecord(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	inUse := host.Spec.Image != nil || host.Spec.CustomDeploy != nil
	if !inUse && !deprovisioned(host) {
		return host
	}
	clean := host.DeepCopy()
	if before, known := originalOf(host); known && !inUse {
		restore(clean, before)
	}
	delete(clean.Annotations, infrav1.ReleaseAnnotation)
	return clean
}
