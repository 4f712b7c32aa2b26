package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Withheld returns the reason why BMO does not register a host with Ironic, and the remedy. It returns an empty string
// if BMO registers the host, also after the provider ends its own pause. An Ironic is complete without a withheld host.
func Withheld(host *bmov1alpha1.BareMetalHost) string {
	if by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused && by != infrav1.HostPausedByProvider {
		return "is paused: remove its annotation " + bmov1alpha1.PausedAnnotation
	}
	if _, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]; detached {
		return "is detached: remove its annotation " + bmov1alpha1.DetachedAnnotation
	}
	return ""
}
