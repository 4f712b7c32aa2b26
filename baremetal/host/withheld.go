package host

import (
	"encoding/json"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Withheld returns the reason why BMO does not register a host with Ironic, and the remedy. It returns an empty string
// if BMO registers the host, also after the provider ends its own pause. An Ironic is complete without a withheld host.
func Withheld(host *bmov1alpha1.BareMetalHost) string {
	if by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused && by != infrav1.HostPausedByProvider {
		return "is paused: remove its annotation " + bmov1alpha1.PausedAnnotation
	}
	if isDetached(host) {
		return "is detached: remove its annotation " + bmov1alpha1.DetachedAnnotation
	}
	return ""
}

// isDetached returns true for a host that BMO removes from Ironic because of the annotation.
//
//	state                                                    annotation       detached
//	any                                                      none             no
//	provisioned, externally provisioned, ready, available    any value        yes
//	deleting                                                 any value        no
//	any other                                                "force": true    yes
//	any other                                                other value      no: BMO ends the operation first
func isDetached(host *bmov1alpha1.BareMetalHost) bool {
	value, annotated := host.Annotations[bmov1alpha1.DetachedAnnotation]
	if !annotated {
		return false
	}
	switch StatusOf(host).Provisioning.State {
	case bmov1alpha1.StateProvisioned, bmov1alpha1.StateExternallyProvisioned,
		bmov1alpha1.StateReady, bmov1alpha1.StateAvailable:
		return true
	case bmov1alpha1.StateDeleting:
		return false
	default:
		var arguments bmov1alpha1.DetachedAnnotationArguments
		return json.Unmarshal([]byte(value), &arguments) == nil && arguments.Force
	}
}

// StatusOf returns the status of a host, or the one that BMO will restore after a move.
func StatusOf(host *bmov1alpha1.BareMetalHost) bmov1alpha1.BareMetalHostStatus {
	if host.Status.LastUpdated.IsZero() {
		var kept bmov1alpha1.BareMetalHostStatus
		if json.Unmarshal([]byte(host.Annotations[bmov1alpha1.StatusAnnotation]), &kept) == nil {
			return kept
		}
	}
	return host.Status
}
