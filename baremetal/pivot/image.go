package pivot

import (
	"encoding/json"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// DependsOnNode returns true if the next step may depend on the Node of the host.
func DependsOnNode(host *bmov1alpha1.BareMetalHost) bool { return unfinished(host) || LostStatus(host) }

// BeginsAgain returns true if BMO would provision the host from the beginning: another Ironic answers than the one that
// began.
func BeginsAgain(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	return unfinished(host) && needsNudge(host, HolderFor(host, around))
}

// BringsStatus returns true if BMO will restore the status of the host from the annotation.
func BringsStatus(host *bmov1alpha1.BareMetalHost) bool {
	return host.Status.LastUpdated.IsZero() && host.Annotations[bmov1alpha1.StatusAnnotation] != ""
}

// MarksAnnotation returns true for a host that MarkProvisioned marks in the annotation: BMO or a Restore writes the
// annotation into the status, and would undo a mark there.
func MarksAnnotation(host *bmov1alpha1.BareMetalHost) bool {
	return BringsStatus(host) || ArrivalOf(host) != NotArrived
}

// unfinished returns true for a host with an image, whose status, own or arrived, is older than the end of the
// provisioning. BMO would write the image.
func unfinished(of *bmov1alpha1.BareMetalHost) bool {
	switch host.StatusOf(of).Provisioning.State {
	case bmov1alpha1.StateProvisioning:
		return true
	case bmov1alpha1.StateUnmanaged, bmov1alpha1.StateRegistering, bmov1alpha1.StateMatchProfile,
		bmov1alpha1.StateInspecting, bmov1alpha1.StatePreparing, bmov1alpha1.StateReady, bmov1alpha1.StateAvailable:
		return hasImage(of)
	default:
		return false
	}
}

// ImageSince returns the time of the last change of the image on a host: when BMO began to write it, or to remove the
// one before. A Node that is older had another image. Zero if the status does not have the time.
func ImageSince(of *bmov1alpha1.BareMetalHost) time.Time {
	history := host.StatusOf(of).OperationHistory
	if history.Provision.Start.Before(&history.Deprovision.Start) {
		return history.Deprovision.Start.Time
	}
	return history.Provision.Start.Time
}

func hasImage(of *bmov1alpha1.BareMetalHost) bool {
	return host.IsImaged(of) && !of.Spec.ExternallyProvisioned
}

// markedProvisioned returns the status annotation of a host with the provisioning set to done.
func markedProvisioned(host *bmov1alpha1.BareMetalHost) string {
	brought := host.Annotations[bmov1alpha1.StatusAnnotation]
	var status map[string]any
	err := json.Unmarshal([]byte(brought), &status)
	deployed, tells := status["provisioning"].(map[string]any)
	if err != nil || !tells {
		return brought
	}
	deployed["state"] = bmov1alpha1.StateProvisioned
	// BMO compares these fields with the spec, and deprovisions the host if they differ.
	if host.Spec.Image != nil {
		deployed["image"] = host.Spec.Image
	}
	if host.Spec.CustomDeploy != nil {
		deployed["customDeploy"] = host.Spec.CustomDeploy
	}
	dropError(status)
	content, err := json.Marshal(status)
	if err != nil {
		return brought
	}
	return string(content)
}

// LostStatus returns true for a host that BMO has managed, that has an image, and that has no status, neither its own
// nor one in the annotation. Hosts from a backup are such hosts. BMO would provision them again.
func LostStatus(host *bmov1alpha1.BareMetalHost) bool {
	return hasImage(host) && host.Status.Provisioning.State == bmov1alpha1.StateNone &&
		host.Annotations[bmov1alpha1.StatusAnnotation] == "" &&
		slices.Contains(host.Finalizers, bmov1alpha1.BareMetalHostFinalizer)
}
