package pivot

import (
	"cmp"
	"fmt"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Progress is the stage of a move of a Cluster, as observed.
type Progress struct {
	// Moving is true if a move is in progress.
	Moving bool

	// Reason is the stage, and Message the number of hosts in each phase.
	Reason, Message string
}

// ProgressOf returns the progress of the move of a Cluster. It counts the hosts of the Cluster, and those without a
// consumer. The first row that matches counts.
//
//	Cluster  block-move  hosts                             stage
//	any      any         some fenced                       HostsFenced
//	paused   there       any                               ParkingHosts
//	paused   gone        any                               HostsPaused: clusterctl copies, or all objects arrived
//	runs     any         some still paused for the move    ResumingHosts
//	runs     any         all others                        NoMove
func ProgressOf(cluster string, paused, gated bool, hosts []*bmov1alpha1.BareMetalHost, around []Neighbour) Progress {
	phases, resuming := map[Phase]int{}, false
	for _, host := range hosts {
		if of := ClusterOf(host); of == "" || of == cluster {
			phase := PhaseOf(host, around)
			phases[phase]++
			resuming = resuming || EpochOf(host) > 0 && waitsForResume(phase)
		}
	}
	counted := "BareMetalHosts: " + CountPhases(phases)
	switch {
	case phases[PhaseFenced] > 0:
		return Progress{true, infrav1.HostsFencedReason, counted}
	case paused && gated:
		return Progress{true, infrav1.ParkingHostsReason, counted}
	case paused:
		return Progress{true, infrav1.MovableReason, counted}
	case resuming:
		return Progress{true, infrav1.ResumingHostsReason, counted}
	default:
		return Progress{Reason: infrav1.NoMoveReason}
	}
}

// waitsForResume returns true for a host that the provider has paused, and whose Cluster runs.
func waitsForResume(phase Phase) bool {
	return phase == PhaseWaitingForEndpoint || phase == PhaseResuming || phase == PhaseArrivalHeld
}

// CountPhases returns the number of hosts in each phase.
func CountPhases(phases map[Phase]int) string {
	var parts []string
	for _, phase := range Phases() {
		if phases[phase] > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", phases[phase], phase))
		}
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}

// PauseReason returns why the provider keeps a host paused after a step, and what ends the pause.
func PauseReason(step Step) string {
	switch step {
	case FenceOff:
		return "Another management cluster manages the host: see condition IronicEndpointReady of the Metal3Cluster whose " +
			"Ironic serves it"
	case Hold:
		return "The Ironic that was provisioning the host is gone: resumed when the workload cluster says whether the Node " +
			"of the host has joined"
	case Keep:
		return "Left by an earlier move, or arrived on a leftover: see condition ReadyForMove of the Metal3Cluster"
	case KeepAway:
		return "Moved away: another management cluster manages the host"
	case AwaitIronic:
		return "The Ironic endpoint of another namespace serves the host: resumed when its Metal3Cluster has arrived " +
			"and is ready"
	case AwaitClusters:
		return "A Cluster that the host moves with is paused: resumed when all of them run in this management cluster"
	case Await:
		return "The host has an image and arrived without its status: resumed when the Machine that holds it has its Node"
	default:
		return "Paused for clusterctl move: resumed when the Cluster runs and its Ironic endpoint is ready"
	}
}

// explain writes the reason of a pause into an annotation of a host. The pause of a user has none.
func explain(host *bmov1alpha1.BareMetalHost, step Step) {
	if host.Annotations[bmov1alpha1.PausedAnnotation] != infrav1.HostPausedByProvider {
		delete(host.Annotations, infrav1.PauseReasonAnnotation)
		return
	}
	host.Annotations[infrav1.PauseReasonAnnotation] = PauseReason(step)
}

// Explained returns true if the annotation of a host that the provider has paused has the reason of a step, or if any
// other host has no annotation.
func Explained(host *bmov1alpha1.BareMetalHost, step Step) bool {
	reason, says := host.Annotations[infrav1.PauseReasonAnnotation]
	if host.Annotations[bmov1alpha1.PausedAnnotation] != infrav1.HostPausedByProvider {
		return !says
	}
	return reason == PauseReason(step)
}

// pausedBecauseOf returns the step that is the reason of the pause of a host.
func pausedBecauseOf(host *bmov1alpha1.BareMetalHost, around []Neighbour) Step {
	switch {
	case GoalOf(host, around) == PhaseFenced:
		return FenceOff
	case GoalOf(host, around) == PhaseWaitingForEndpoint && AwaitsIronic(host, around) != "":
		return AwaitIronic
	case LostStatus(host):
		return Await
	case awaitsClusters(host, around):
		return AwaitClusters
	default:
		return Pause
	}
}

// isMisexplained returns true for a host with an outdated reason, also if a user has removed its pause.
func isMisexplained(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	_, says := host.Annotations[infrav1.PauseReasonAnnotation]
	return says && !Explained(host, pausedBecauseOf(host, around))
}
