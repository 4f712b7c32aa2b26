package pivot

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// Registration compares the ID that a host has in its status with the ID of its node in Ironic.
type Registration string

// Values of Registration.
const (
	// RegistrationKept means that there is nothing to do.
	RegistrationKept Registration = "Kept"

	// RegistrationLost means that BMO has registered the host and has not saved the ID of the node.
	RegistrationLost Registration = "Lost"

	// RegistrationRepeated means that the manager has made BMO register the host again, and BMO has not saved the ID yet.
	RegistrationRepeated Registration = "Repeated"

	// RegistrationSaved means that BMO has saved the ID after the manager made it register the host again.
	RegistrationSaved Registration = "Saved"
)

// RegistrationOf returns the registration of a host whose node has this ID in Ironic. The first row that matches
// counts.
//
//	node          host                                                        registration
//	none          any                                                         Kept
//	any           paused by anybody, detached, deleted by a move, without     Kept: BMO does not register it
//	              an ID, or in the state deleting
//	the same ID   has LostRegistrationAnnotation                              Saved
//	the same ID   anything else                                               Kept
//	another ID    LostRegistrationAnnotation names the node                   Repeated
//	another ID    anything else                                               Lost
func RegistrationOf(of *bmov1alpha1.BareMetalHost, node string) Registration {
	id := of.Status.Provisioning.ID
	if node == "" || id == "" || !isRegistered(of) {
		return RegistrationKept
	}
	asked, repeated := of.Annotations[infrav1.LostRegistrationAnnotation]
	switch {
	case id == node && repeated:
		return RegistrationSaved
	case id == node:
		return RegistrationKept
	case asked == node:
		return RegistrationRepeated
	default:
		return RegistrationLost
	}
}

// isRegistered returns true if BMO registers the host with Ironic at each reconcile.
func isRegistered(of *bmov1alpha1.BareMetalHost) bool {
	_, paused := of.Annotations[bmov1alpha1.PausedAnnotation]
	return !paused && host.Withheld(of) == "" && !infrav1.IsLeaving(of) &&
		of.Status.Provisioning.State != bmov1alpha1.StateDeleting
}
