package pivot

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Phase is the state of a host in a move. Transitions returns the state machine, PlanHost the next step of the manager,
// and ProgressOf the number of hosts in each phase for condition MoveInProgress. A phase that requires an administrator
// has the name of the event that the manager emits.
type Phase string

// Values of Phase.
const (
	// PhaseRunning means that BMO manages the host, and that a move would interrupt no operation.
	PhaseRunning Phase = "Running"

	// PhaseBusy means that BMO works on the host, and that a move would interrupt it.
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

	// PhaseResuming means that the manager will remove the pause next.
	PhaseResuming Phase = "Resuming"

	// PhaseFenced means that the host is paused because another management cluster manages it.
	PhaseFenced Phase = "Fenced"

	// PhaseArrivalHeld means that the host is a leftover of an earlier move, or arrived on one. It stays paused,
	// because BMO could wipe it.
	PhaseArrivalHeld Phase = "ArrivalHeld"

	// PhaseStatusLost means that the host has an image and no status, as after a restore from a backup. It stays paused
	// until its Node has joined.
	PhaseStatusLost Phase = "StatusLost"

	// PhaseProvisioningHeld means that the host lost its Ironic while it was being provisioned. It stays paused until
	// the workload cluster says whether its Node has joined.
	PhaseProvisioningHeld Phase = "ProvisioningHeld"

	// PhasePausedByUser means that the user has paused the host.
	PhasePausedByUser Phase = "PausedByUser"
)

// Phases returns all phases, in the order in which MoveInProgress counts them.
func Phases() []Phase {
	return []Phase{
		PhaseRunning, PhaseBusy, PhaseParking, PhaseParked, PhaseLeaving, PhaseWaitingForEndpoint, PhaseResuming,
		PhaseFenced, PhaseArrivalHeld, PhaseStatusLost, PhaseProvisioningHeld, PhasePausedByUser,
	}
}

// PhaseOf returns the phase of a host. The first row that matches counts.
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

// isBusy returns true for a busy host, except for a host that moves while it is busy.
func isBusy(host *bmov1alpha1.BareMetalHost, goal Phase, paused bool) bool {
	return Delays(host) != "" || Busy(host) != "" && !paused && goal != PhaseParked
}

// phaseOfQuiet returns the phase of a host that is not busy, not parked, and not paused by another program.
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

// isProvisioningHeld returns true for a paused host with step Hold. Only the manager observes whether the workload
// cluster answers, and it writes the reason of the pause.
func isProvisioningHeld(host *bmov1alpha1.BareMetalHost, goal Phase, around []Neighbour) bool {
	if goal != PhaseParked && goal != PhaseRunning || !BeginsAgain(host, around) {
		return false
	}
	return host.Annotations[bmov1alpha1.PausedAnnotation] != infrav1.HostPausedByProvider ||
		host.Annotations[infrav1.PauseReasonAnnotation] == PauseReason(Hold)
}
