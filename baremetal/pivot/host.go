package pivot

import (
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Step is the next action of the manager for a host: a transition of the state machine, or a part of one.
type Step string

// Values of Step.
const (
	// Leave does nothing.
	Leave Step = "Leave"

	// Pause pauses the host, so that BMO does not reconcile it.
	Pause Step = "Pause"

	// FenceOff pauses a host that another management cluster manages, also during an operation of BMO. A paused host
	// keeps its pause, and gets a new reason.
	FenceOff Step = "FenceOff"

	// Settle waits until BMO has finished the reconcile that began before the pause.
	Settle Step = "Settle"

	// Record writes the status into an annotation. BMO restores the status from it in the other cluster.
	Record Step = "Record"

	// Stamp writes the epoch of the move onto a parked host that was paused before the move began.
	Stamp Step = "Stamp"

	// Restore writes the status that arrived from another cluster into the status of a leftover object. BMO ignores the
	// annotation if the object has a status.
	Restore Step = "Restore"

	// Keep keeps the pause of a leftover of an earlier move, and of a host that BMO would wipe because it arrived on a
	// leftover.
	Keep Step = "Keep"

	// AwaitClusters is the reason of a parked host while only some Clusters of its move run.
	AwaitClusters Step = "AwaitClusters"

	// Explain corrects the reason of the pause. It removes the reason from a host that the provider has not paused.
	Explain Step = "Explain"

	// Resume removes the pause of the provider.
	Resume Step = "Resume"

	// Stay removes the pause of the provider from a host that no move took, and that has no Cluster here.
	Stay Step = "Stay"

	// MarkProvisioned records that the host is provisioned: its Ironic is gone, or its status is lost, and BMO would
	// provision it again.
	MarkProvisioned Step = "MarkProvisioned"

	// Await keeps the pause of a host that lost its status until its Node has joined.
	Await Step = "Await"

	// AwaitIronic keeps the pause of a host that arrived before the Metal3Cluster with the Ironic endpoint that serves it.
	AwaitIronic Step = "AwaitIronic"

	// KeepAway keeps the pause of a host that a move took away, and that another management cluster manages.
	KeepAway Step = "KeepAway"

	// Hold keeps any pause of a host that BMO would provision again, until the workload cluster says whether its Node
	// has joined.
	Hold Step = "Hold"

	// Nudge enqueues the host in BMO, because another Ironic answers.
	Nudge Step = "Nudge"

	// Forget removes annotations that no longer apply: that of the last Nudge from a host that depends on no cluster with
	// an Ironic endpoint, and those of a move that has ended from a host whose pause a user has removed.
	Forget Step = "Forget"
)

// HostFacts are the facts about a host that are not in the host itself.
type HostFacts struct {
	// Settled is true if the pause is older than any reconcile of BMO that began before it.
	Settled bool

	// Joined is true if the host has a Node, so the host runs its image.
	Joined bool

	// Unknown is true if the workload cluster does not answer, so that it is unknown whether the host has a Node.
	Unknown bool

	// Stayed is true if the Clusters of the namespace have moved away without the host: see HasStayed.
	Stayed bool

	// Left is true if a move took the host away: see HasLeft.
	Left bool
}

// PlanHost returns the next step of a host, by the phase that its Clusters require (GoalOf). The first row that matches
// counts.
//
//	goal                host                                           step
//	any                 being deleted by a move                        Leave
//	any                 paused, was being deleted when it arrived, or  Keep
//	                    arrived on a leftover with a newer status
//	any                 paused, left by an earlier move                Keep
//	any                 paused, arrived on any other leftover          Restore
//	Parked, Running     last registered by another Ironic than the     MarkProvisioned: before anything else
//	                    holder, not provisioned, its Node has joined
//	Parked, Running     the same, and it is not known whether its      Hold
//	                    Node has joined, or the user has paused it
//	Parked              being deleted                                  Leave: BMO would wipe what runs on it
//	Parked              busy and waited for, paused by the provider,   Resume: BMO completes its work first
//	                    and a gate of the namespace is closed
//	Parked              busy and waited for, anything else             Leave: PlanHost runs again when BMO is done, or
//	                                                                   clusterctl copies the host
//	Parked              not waited for, not paused                     Pause
//	Parked              parked, for another move                       Stamp
//	Parked              not waited for, paused by anybody, not         Settle
//	                    settled
//	Parked              not waited for, paused, status not recorded    Record
//	Parked              not waited for, paused, status recorded        Leave
//	not Parked          not paused, names a holder, and depends on     Forget
//	                    no Cluster with an Ironic endpoint
//	Fenced              not paused, or paused for another reason       FenceOff
//	Fenced              paused by anybody                              Leave
//	WaitingForEndpoint  has no Cluster here, and no move took it       Stay
//	WaitingForEndpoint  waits for the endpoint of another namespace,   AwaitIronic
//	                    and does not say so
//	WaitingForEndpoint  anything else                                  Leave
//	Running             paused by the provider, a move took it away    KeepAway
//	Running             paused by the provider, status lost, its Node  MarkProvisioned
//	                    has joined
//	Running             paused by the provider, status lost            Await
//	Running             paused by the provider, anything else          Resume
//	Running             last registered by another Ironic than the     Nudge
//	                    holder
//	Running             not paused, with annotations of a move that    Forget
//	                    has ended
//	Running             anything else                                  Leave
//
// A host with an outdated reason gets Explain instead of Leave, unless a move deletes the host.
func PlanHost(host *bmov1alpha1.BareMetalHost, around []Neighbour, facts HostFacts) Step {
	if infrav1.IsLeaving(host) {
		return Leave
	}
	step := planStaying(host, around, facts)
	if step == Leave && isMisexplained(host, around) {
		return Explain
	}
	return step
}

// planStaying is PlanHost for a host that no move deletes. It ignores the reason of the pause.
func planStaying(host *bmov1alpha1.BareMetalHost, around []Neighbour, facts HostFacts) Step {
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	if step := planArrival(host, around, paused); step != Leave {
		return step
	}
	ours := by == infrav1.HostPausedByProvider
	goal, another := GoalOf(host, around), needsNudge(host, HolderFor(host, around))
	if step := planInterrupted(host, goal, another, paused && !ours, facts); step != Leave {
		return step
	}
	switch {
	case goal == PhaseFenced:
		return planFencing(host)
	case goal == PhaseParked:
		return planParking(host, around, paused, ours, facts.Settled)
	case !paused && outOfDate(host, around):
		return Forget
	case goal == PhaseWaitingForEndpoint:
		return planWaiting(host, around, facts.Stayed)
	case ours:
		return planResuming(host, facts)
	case another:
		return Nudge
	case outlivesMove(host, around):
		return Forget
	default:
		return Leave
	}
}

// planArrival returns the step of a host that arrived on a leftover of an earlier move. Leave means that the host did
// not.
func planArrival(host *bmov1alpha1.BareMetalHost, around []Neighbour, paused bool) Step {
	arrival := ArrivalOf(host)
	switch {
	case !paused:
		return Leave
	case Abandoned(host, around), ArrivedDeleted(host, around):
		return Keep
	case arrival == ArrivalPending:
		return Restore
	case arrival == ArrivalOutdated:
		return Keep
	default:
		return Leave
	}
}

// planInterrupted returns the step of a host that lost its Ironic during an operation. Leave means that the host did
// not.
func planInterrupted(host *bmov1alpha1.BareMetalHost, goal Phase, another, byUser bool, facts HostFacts) Step {
	switch {
	case goal != PhaseParked && goal != PhaseRunning, !another, !unfinished(host):
		return Leave
	case facts.Joined:
		return MarkProvisioned
	case facts.Unknown, byUser:
		return Hold
	default:
		return Leave
	}
}

func planParking(host *bmov1alpha1.BareMetalHost, around []Neighbour, paused, ours, settled bool) Step {
	switch {
	case !host.DeletionTimestamp.IsZero():
		return Leave
	case Delays(host) != "" && ours && slices.ContainsFunc(local(around), waitsAtGate):
		return Resume
	case Delays(host) != "", parkedFor(host, around):
		return Leave
	case Parked(host):
		return Stamp
	case !paused:
		return Pause
	case !settled:
		return Settle
	default:
		return Record
	}
}

// planWaiting returns the step of a host without a Cluster here, or without a verified Ironic endpoint.
func planWaiting(host *bmov1alpha1.BareMetalHost, around []Neighbour, stayed bool) Step {
	if stayed && MayHaveStayed(host, around) {
		return Stay
	}
	return Leave
}

func planResuming(host *bmov1alpha1.BareMetalHost, facts HostFacts) Step {
	switch {
	case facts.Left:
		return KeepAway
	case !LostStatus(host):
		return Resume
	case facts.Joined:
		return MarkProvisioned
	default:
		return Await
	}
}

// Parked returns true if a move of the host loses nothing: the host is paused, and the annotation has its status. A
// host that BMO has not reconciled yet has no status to lose.
func Parked(host *bmov1alpha1.BareMetalHost) bool {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	return paused && recorded(host)
}

// HolderFor returns the holder of the Ironic endpoint of a host: the first known one. Nil if none is known.
func HolderFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) *infrav1.IronicHolder {
	for _, other := range servedBy(host, around) {
		if other.Holder != nil {
			return other.Holder
		}
	}
	return nil
}

// outOfDate returns true if the annotation of a host names a holder, and the host depends on no Ironic endpoint.
func outOfDate(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	_, told := host.Annotations[infrav1.IronicHolderAnnotation]
	return told && len(servedBy(host, around)) == 0
}

// outlivesMove returns true if a host whose Clusters run has annotations of a move that has ended. Resume removes them,
// but a user has removed the pause of this host. The first row that matches counts.
//
//	host                         has annotations of an ended move
//	has none of the annotations  no
//	is paused                    no: the pause may belong to a move
//	has a status annotation      no: BMO has not restored the status yet
//	its move has not ended       no: see moveHasEnded
//	anything else                yes
func outlivesMove(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	has := func(annotation string) bool {
		_, exists := host.Annotations[annotation]
		return exists
	}
	return slices.ContainsFunc(moveAnnotations(), has) && !has(bmov1alpha1.PausedAnnotation) &&
		!has(bmov1alpha1.StatusAnnotation) && moveHasEnded(host, around)
}

// moveAnnotations are the annotations of a host that only a move needs.
func moveAnnotations() []string {
	return []string{
		infrav1.StatusOriginAnnotation, infrav1.MoveEpochAnnotation, infrav1.IronicClusterIDAnnotation,
	}
}

// forget removes annotations that no longer apply from a copy of a host.
func forget(changed, host *bmov1alpha1.BareMetalHost, around []Neighbour) {
	if outOfDate(host, around) {
		delete(changed.Annotations, infrav1.IronicHolderAnnotation)
	}
	if GoalOf(host, around) == PhaseRunning && outlivesMove(host, around) {
		dropMoveAnnotations(changed)
	}
}

// dropMoveAnnotations removes the annotations of a move from a host.
func dropMoveAnnotations(host *bmov1alpha1.BareMetalHost) {
	for _, annotation := range moveAnnotations() {
		delete(host.Annotations, annotation)
	}
}

// HolderName returns the value of the annotation that Nudge writes: kind, name and, if known, term of the holder.
func HolderName(holder infrav1.IronicHolder) string {
	name := string(holder.Kind) + "/" + holder.Name
	if holder.Term != "" {
		name += "@" + holder.Term
	}
	return name
}

// needsNudge returns true if another Ironic answers than the host was registered with. The first Ironic is that of the
// management cluster, and BMO registers hosts with it without an annotation.
func needsNudge(host *bmov1alpha1.BareMetalHost, holder *infrav1.IronicHolder) bool {
	if holder == nil || holder.Kind != infrav1.HolderManagement && holder.Kind != infrav1.HolderControlPlane {
		return false
	}
	known, nudged := host.Annotations[infrav1.IronicHolderAnnotation]
	if holder.Term == "" {
		// A missing term means that Ironic does not report it at this time.
		known, _, _ = strings.Cut(known, "@")
	}
	return nudged && known != HolderName(*holder) || !nudged && holder.Kind == infrav1.HolderControlPlane
}

// Apply applies a step to a copy of the host. It omits steps that require the whole status: Record, Restore, and
// MarkProvisioned of a host that MarksAnnotation returns false for.
func Apply(step Step, host *bmov1alpha1.BareMetalHost, around []Neighbour) *bmov1alpha1.BareMetalHost {
	changed := host.DeepCopy()
	switch step {
	case Pause, FenceOff, Hold:
		if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; !paused {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
			stamp(changed, around)
		}
		explain(changed, step)
	case Keep, KeepAway, Await, AwaitIronic:
		explain(changed, step)
	case Explain:
		explain(changed, pausedBecauseOf(host, around))
	case Stamp:
		stamp(changed, around)
	case Resume, Stay:
		delete(changed.Annotations, bmov1alpha1.PausedAnnotation)
		dropMoveAnnotations(changed)
		delete(changed.Annotations, infrav1.PauseReasonAnnotation)
		delete(changed.Annotations, infrav1.MoveWhileBusyAnnotation)
	case Nudge:
		holder := HolderFor(host, around)
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, infrav1.IronicHolderAnnotation, HolderName(*holder))
	case Forget:
		forget(changed, host, around)
	case MarkProvisioned:
		if MarksAnnotation(host) {
			changed.Annotations[bmov1alpha1.StatusAnnotation] = markedProvisioned(host)
		}
	case Leave, Settle, Record, Restore:
	}
	return changed
}
