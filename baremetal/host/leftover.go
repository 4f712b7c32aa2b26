package host

import (
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// WithoutLeftovers returns the host without the metadata that a machine left on it, and whether there was any. Without
// any, it returns the given host, not a copy. CAPM3 leaves such metadata, and so does a user who removes a consumerRef.
//
//	leftover                            removed from              effect if it stays
//	ownerReference of a Metal3Machine   every host                the garbage collector deletes the host with the machine
//	block-move                          unclaimed and reserved    every later clusterctl move waits forever
//	                                    hosts
//	record of a claim                   unclaimed hosts           the host keeps the fields that a machine set; see
//	                                                              recordsWithoutMachine
//
// While a Cluster of the namespace is paused, a move may run, so WithoutLeftovers removes only ownerReferences. It does
// not change a host that a move deletes. It keeps the pause of the provider, which controllers/hostmove removes. It
// keeps the record of a claim if recorded says that a Metal3Machine has recorded the host.
func WithoutLeftovers(
	host *bmov1alpha1.BareMetalHost, clusterPaused, recorded bool,
) (*bmov1alpha1.BareMetalHost, bool) {
	isOwned := slices.ContainsFunc(host.OwnerReferences, isMachineOwner)
	blocks := !clusterPaused && blocksWithoutMachine(host)
	records := !clusterPaused && !recorded && recordsWithoutMachine(host)
	if infrav1.IsLeaving(host) || !isOwned && !blocks && !records {
		return host, false
	}
	clean := host.DeepCopy()
	clean.OwnerReferences = withoutMachineOwners(clean.OwnerReferences)
	if blocks {
		delete(clean.Annotations, infrav1.BlockMoveAnnotation)
	}
	if records {
		dropRecord(clean)
	}
	return clean, true
}

func blocksWithoutMachine(host *bmov1alpha1.BareMetalHost) bool {
	_, blocks := host.Annotations[infrav1.BlockMoveAnnotation]
	return blocks && (host.Spec.ConsumerRef == nil || isReservation(host.Spec.ConsumerRef))
}

// recordsWithoutMachine returns true for an unclaimed host with the record of a claim that no machine requires.
//
//	host                            record
//	has an image or a deploy step   is removed, its values are not restored
//	not deprovisioned yet           is kept until the host is deprovisioned
//	deprovisioned                   is removed, its values are restored
func recordsWithoutMachine(host *bmov1alpha1.BareMetalHost) bool {
	_, records := host.Annotations[infrav1.ReleaseAnnotation]
	_, kept := host.Labels[infrav1.NodeReuseLabel]
	return records && !kept && host.Spec.ConsumerRef == nil && (IsImaged(host) || deprovisioned(host))
}

// IsImaged returns true if a host has an image or a deploy step.
func IsImaged(host *bmov1alpha1.BareMetalHost) bool {
	return host.Spec.Image != nil || host.Spec.CustomDeploy != nil
}

// dropRecord removes the record of a claim. It restores the recorded values unless the host has an image or a deploy
// step.
func dropRecord(host *bmov1alpha1.BareMetalHost) {
	if before, known := originalOf(host); known && !IsImaged(host) {
		restore(host, before)
	}
	delete(host.Annotations, infrav1.ReleaseAnnotation)
}
