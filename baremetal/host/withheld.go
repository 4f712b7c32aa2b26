package host

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Withheld says why the host operator does not keep a host in Ironic, and how to end that. Empty if it does, or will.
// An Ironic that does not know such a host lacks nothing. The first row that fits counts.
//
//	host is                    then
//	paused by somebody else    is paused: an Ironic that starts anew never hears of it
//	detached                   is detached: it is taken out of Ironic
//	anything else              empty: what the provider paused is resumed
func Withheld(host *bmov1alpha1.BareMetalHost) string {
	if by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused && by != infrav1.HostPausedByProvider {
		return "is paused: remove its annotation " + bmov1alpha1.PausedAnnotation
	}
	if _, detached := host.Annotations[bmov1alpha1.DetachedAnnotation]; detached {
		return "is detached: remove its annotation " + bmov1alpha1.DetachedAnnotation
	}
	return ""
}
