package pivot

import (
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// operationalDelayed is the operational status of a host that waits until BMO provisions fewer hosts.
const operationalDelayed bmov1alpha1.OperationalStatus = "delayed"

// Busy returns the operation of BMO that a move would interrupt. Empty means none. An unknown state counts as an
// operation. The first row that matches counts.
//
//	host                                                   busy
//	has a deletionTimestamp                                being deleted
//	is being serviced                                      being serviced: firmware may be half written
//	has an error, or is detached                           no: BMO continues there in the target cluster
//	is provisioned or externally provisioned               as poweringOf says
//	is available, ready, unmanaged or new                  no
//	anything else                                          the state
func Busy(host *bmov1alpha1.BareMetalHost) string {
	operational, state := host.Status.OperationalStatus, host.Status.Provisioning.State
	switch {
	case !host.DeletionTimestamp.IsZero():
		return "being deleted"
	case operational == bmov1alpha1.OperationalStatusServicing:
		return "being serviced"
	case host.Status.ErrorType != "", operational == bmov1alpha1.OperationalStatusDetached:
		return ""
	}
	switch operational {
	case "", bmov1alpha1.OperationalStatusOK, bmov1alpha1.OperationalStatusDiscovered,
		bmov1alpha1.OperationalStatusError, operationalDelayed:
	default:
		return string(operational)
	}
	switch state {
	case bmov1alpha1.StateProvisioned, bmov1alpha1.StateExternallyProvisioned:
		return poweringOf(host)
	case bmov1alpha1.StateNone, bmov1alpha1.StateUnmanaged, bmov1alpha1.StateReady, bmov1alpha1.StateAvailable:
		return ""
	default:
		return string(state)
	}
}

// Delays returns the operation of BMO that a move waits for. Empty means none.
//
//	host                                              a move waits
//	is not busy                                       no
//	is inspected, prepared or deprovisioned, and its  no: Ironic continues, and BMO in the target reads the node
//	user lets it move                                 before it acts
//	is busy with anything else                        yes: it would begin again, or its deletion would be lost
func Delays(host *bmov1alpha1.BareMetalHost) string {
	if _, allowed := host.Annotations[infrav1.MoveWhileBusyAnnotation]; allowed && MovesWhileBusy(host) {
		return ""
	}
	return Busy(host)
}

// MovesWhileBusy returns true for a busy host that can move if its user allows it.
func MovesWhileBusy(host *bmov1alpha1.BareMetalHost) bool {
	switch state := host.Status.Provisioning.State; state {
	case bmov1alpha1.StateInspecting, bmov1alpha1.StatePreparing, bmov1alpha1.StateDeprovisioning:
		return Busy(host) == string(state)
	default:
		return false
	}
}

// poweringOf returns whether BMO is about to change the power of a host. If such a host is paused, its power stays as
// it is until it is resumed. A user who pauses a host decides about its power.
//
//	paused by  reboot annotation  poweredOn           busy
//	the user   any                any                 no
//	not        without a suffix   any                 being rebooted: BMO removes it when the host is off
//	not        with a suffix      yes                 being rebooted: BMO powers the host off
//	not        with a suffix      no                  no: BMO waits for the owner of the annotation
//	not        none               not as spec.online  being powered on or off
//	not        none               as spec.online      no
func poweringOf(host *bmov1alpha1.BareMetalHost) string {
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	_, once := host.Annotations[bmov1alpha1.RebootAnnotationPrefix]
	on := host.Status.PoweredOn
	switch {
	case paused && by != infrav1.HostPausedByProvider:
		return ""
	case once:
		return "being rebooted"
	case keptOff(host) && on:
		return "being rebooted"
	case keptOff(host), on == host.Spec.Online:
		return ""
	case host.Spec.Online:
		return "being powered on"
	default:
		return "being powered off"
	}
}

// keptOff returns true if a reboot annotation with a suffix keeps the host powered off.
func keptOff(host *bmov1alpha1.BareMetalHost) bool {
	for annotation := range host.Annotations {
		if strings.HasPrefix(annotation, bmov1alpha1.RebootAnnotationPrefix+"/") {
			return true
		}
	}
	return false
}
