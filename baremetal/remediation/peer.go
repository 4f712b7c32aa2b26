package remediation

import (
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Peer is another machine of the cluster.
type Peer struct {
	// Host is the host of the machine. Nil means none.
	Host *bmov1alpha1.BareMetalHost

	// Remediations are those of its Machine.
	Remediations []*infrav1.Metal3Remediation

	// Permitted says that the reboot of the host was permitted, which Host and Remediations may not show yet.
	Permitted bool
}

// IsDown returns true for a machine whose Node may stop, or has stopped, although its condition Ready is true. The node
// controller changes the condition only about 50 seconds after the kubelet has stopped. The first row that fits counts.
//
//	seen                                                        down
//	reboot is permitted                                         yes
//	any request to power the host off, or to restart it         yes
//	spec.online is false                                        yes
//	BMO reports that the host is powered off                    yes
//	BMO deprovisions the host                                   yes
//	a remediation in phase Running                              yes
//	a remediation in phase Waiting, before the timeout          yes: the Node is not proven to have booted
//	anything else                                               no: the condition Ready of the Node counts
//
// A MachineHealthCheck deletes the remediation when the Node is healthy. The reported power of a host that is paused,
// detached or without a reported state does not count: it may be outdated.
func IsDown(peer Peer, now time.Time) bool {
	if peer.Permitted || peer.Host != nil && isOff(peer.Host) {
		return true
	}
	for _, request := range peer.Remediations {
		record := Recall(request)
		limits, _ := LimitsOf(request.Spec.Strategy)
		if record.Phase == infrav1.RemediationRunning ||
			record.Phase == infrav1.RemediationWaiting && record.Left(limits.Timeout, now) > 0 {
			return true
		}
	}
	return false
}

// isOff returns true for a host that is powered off, or that a request powers off.
func isOff(host *bmov1alpha1.BareMetalHost) bool {
	for key := range host.Annotations {
		if key == bmov1alpha1.RebootAnnotationPrefix || strings.HasPrefix(key, bmov1alpha1.RebootAnnotationPrefix+"/") {
			return true
		}
	}
	state := host.Status.Provisioning.State
	if !host.Spec.Online || state == bmov1alpha1.StateDeprovisioning {
		return true
	}
	outdated := state == bmov1alpha1.StateNone ||
		metav1.HasAnnotation(host.ObjectMeta, bmov1alpha1.PausedAnnotation) ||
		metav1.HasAnnotation(host.ObjectMeta, bmov1alpha1.DetachedAnnotation)
	return !outdated && !host.Status.PoweredOn
}
