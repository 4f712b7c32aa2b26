package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Withheld returns why BMO does not register a host with Ironic, and how to end that. Empty if BMO does, or will. An
// Ironic without such a host is complete. The first row that fits counts.
//
//	host is                    then
//	paused by a user           is paused: BMO does not register it with a new Ironic
//	detached                   is detached: BMO removes it from Ironic
//	anything else              empty: the provider ends its own pause
func Withheld(host *bmov1alpha1.BareMetalHost) string {
	if by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused && by != infrav1.HostPausedByProvider {
		return "is paused: remove its annotation " + bmov1alpha1.PausedAnnotation
	}
	if _, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]; detached {
		return "is detached: remove its annotation " + bmov1alpha1.DetachedAnnotation
	}
	return ""
}
