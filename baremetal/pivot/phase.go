package pivot

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Phase is the state of a host in a move. Transitions holds the state machine, PlanHost the step that the manager takes
// next, and ProgressOf sums up the phases of the hosts of a Cluster in condition MoveInProgress. A phase in which a
// host needs a person has the name of the event that the manager writes on the host.
type Phase string

// Values of Phase.
const (
	// PhaseRunning means that BMO manages the host, and that it does nothing that a move would interrupt.
	PhaseRunning Phase = "Running"

	// PhaseBusy means that BMO does something that a move would interrupt.
	PhaseBusy Phase = "Busy"

	// PhaseParking means that the Cluster is paused, and that the manager pauses the host and records its status.
	PhaseParking Phase = "Parking"

	// PhaseParked means that the host is paused, and that its status is recorded: clusterctl may copy it.
	PhaseParked Phase = "Parked"

	// PhaseLeaving means that clusterctl has copied the host to another cluster, and deletes it in this one.
	PhaseLeaving Phase = "Leaving"

	// PhaseWaitingForEndpoint means that the Cluster runs, and that the host stays paused until IronicEndpointReady and
	// the block-move annotation of the Metal3Cluster are back.
	PhaseWaitingForEndpoint Phase = "WaitingForEndpoint"

	// PhaseResuming means that the manager is about to remove the pause.
	PhaseResuming Phase = "Resuming"

	// PhaseFenced means that the host is paused because another management cluster manages it.
	PhaseFenced Phase = "Fenced"

	// PhaseArrivalHeld means that an earlier move has left the host, or that the host arrived on such a leftover. It stays
	// paused, because BMO could wipe it.
	PhaseArrivalHeld Phase = "ArrivalHeld"

	// PhaseStatusLost means that the host has an image and no status, as out of a backup. It stays paused until its Node
	// has joined.
	PhaseStatusLost Phase = "StatusLost"

	// PhaseProvisioningHeld means that the Ironic that was provisioning the host is gone. The host stays paused until it
	// is known whether its Node has joined.
	PhaseProvisioningHeld Phase = "ProvisioningHeld"

	// PhasePausedByUser means that the user has paused the host.
	PhasePausedByUser Phase = "PausedByUser"
)

// Phases returns all phases, in the order in which they are counted.
func Phases() []Phase {
	return []Phase{
		PhaseRunning, PhaseBusy, PhaseParking, PhaseParked, PhaseLeaving, PhaseWaitingForEndpoint, PhaseResuming,
		PhaseFenced, PhaseArrivalHeld, PhaseStatusLost, PhaseProvisioningHeld, PhasePausedByUser,
	}
}

// PhaseOf returns the phase of a host. The first row that fits counts.
//
//	host is                                                   goal                phase
//	being deleted by a move                                   any                 Leaving
//	paused                                                    Fenced              Fenced
//	paused, left by an earlier move or arrived on a leftover  any                 ArrivalHeld
//	paused, its Ironic was lost, and its Node is not known    Parked, Running     ProvisioningHeld
//	busy, and a move waits for it                             any                 Busy
//	busy, not paused                                          any but Parked      Busy
//	paused by anybody, and its status is recorded             Parked              Parked
//	paused by the user                                        any                 PausedByUser
//	any other                                                 Parked              Parking
//	not paused                                                any                 Running
//	paused by the provider, and its status is lost            any                 StatusLost
//	paused by the provider                                    Running             Resuming
//	paused by the provider                                    WaitingForEndpoint  WaitingForEndpoint
func PhaseOf(host *bmov1alpha1.BareMetalHost, around []Neighbour) Phase {
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	goal := GoalOf(host, around)
	switch {
	case infrav1.IsLeaving(host):
		return PhaseLeaving
	case paused && goal == PhaseFenced:
		return PhaseFenced
	case planArrival(host, around, paused) != Leave:
		return PhaseArrivalHeld
	case paused && isProvisioningHeld(host, goal, around):
		return PhaseProvisioningHeld
	case isBusy(host, goal, paused):
		return PhaseBusy
	case goal == PhaseParked && parkedFor(host, around):
		return PhaseParked
	case paused && by != infrav1.HostPausedByProvider:
		return PhasePausedByUser
	default:
		return phaseOfQuiet(host, goal, paused)
	}
}

// isBusy returns true for a busy host, except one that is to move or moves while it is busy.
func isBusy(host *bmov1alpha1.BareMetalHost, goal Phase, paused bool) bool {
	return Delays(host) != "" || Busy(host) != "" && !paused && goal != PhaseParked
}

// phaseOfQuiet returns the phase of a quiet host that is not parked and that only the provider may have paused.
func phaseOfQuiet(host *bmov1alpha1.BareMetalHost, goal Phase, paused bool) Phase {
	switch {
	case goal == PhaseParked:
		return PhaseParking
	case !paused:
		return PhaseRunning
	case LostStatus(host):
		return PhaseStatusLost
	case goal == PhaseRunning:
		return PhaseResuming
	default:
		return PhaseWaitingForEndpoint
	}
}

// isProvisioningHeld returns true for a paused host with step Hold. Only the manager knows whether the workload cluster
// answers, and writes the reason of the pause.
func isProvisioningHeld(host *bmov1alpha1.BareMetalHost, goal Phase, around []Neighbour) bool {
	if goal != PhaseParked && goal != PhaseRunning || !BeginsAnew(host, around) {
		return false
	}
	return host.Annotations[bmov1alpha1.PausedAnnotation] != infrav1.HostPausedByProvider ||
		host.Annotations[infrav1.PauseReasonAnnotation] == PauseReason(Hold)
}
