package pivot

import (
	"encoding/json"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Step is what the manager does with a host next: a transition of the state machine, or a part of one.
type Step string

// Values of Step.
const (
	// Leave does nothing.
	Leave Step = "Leave"

	// Pause keeps BMO from acting on the host.
	Pause Step = "Pause"

	// FenceOff pauses a host that another management cluster manages, also during an operation of BMO. A paused host keeps
	// its pause, and says why.
	FenceOff Step = "FenceOff"

	// Settle waits for what BMO had begun before the pause.
	Settle Step = "Settle"

	// Record writes the status into an annotation, from which BMO takes it up in the other cluster.
	Record Step = "Record"

	// Stamp writes the epoch of the move onto a host that is parked: it was paused before the move began.
	Stamp Step = "Stamp"

	// Restore writes the status that arrived from another cluster into the status of a leftover object. BMO ignores the
	// annotation where there is a status.
	Restore Step = "Restore"

	// Keep keeps the pause of a host that BMO would wipe because of what was left over of an earlier move, and of a host
	// that an earlier move has left.
	Keep Step = "Keep"

	// Explain corrects the reason of a pause that goes on for another reason. It removes the reason from a pause of the
	// user.
	Explain Step = "Explain"

	// Resume takes back the own pause.
	Resume Step = "Resume"

	// Stay takes back the own pause from a host that no move took, and that has no Cluster here.
	Stay Step = "Stay"

	// MarkProvisioned keeps a system that runs: the Ironic that was deploying it is gone, or the status is lost, and BMO
	// would deploy it again.
	MarkProvisioned Step = "MarkProvisioned"

	// Await keeps the pause of a host whose status was lost until its node shows that what was deployed runs.
	Await Step = "Await"

	// AwaitIronic keeps the pause of a host that arrived before the Metal3Cluster with the Ironic endpoint that serves it.
	AwaitIronic Step = "AwaitIronic"

	// Hold keeps a host paused, by whomever, that BMO would begin anew with, until it is known whether its
	// node has joined.
	Hold Step = "Hold"

	// Nudge makes BMO look at the host at once, because another Ironic answers now.
	Nudge Step = "Nudge"

	// Forget takes back what the last nudge wrote: the host depends on no cluster with an Ironic endpoint any more.
	Forget Step = "Forget"
)

// HostFacts are what counts of a host besides the host itself.
type HostFacts struct {
	// Settled says that the pause is older than what BMO could have begun before it.
	Settled bool

	// Joined says that the host has a node: what was deployed runs.
	Joined bool

	// Unknown says that the workload cluster does not answer, so that it is unknown whether the host has a Node.
	Unknown bool

	// Stayed says that the Clusters of the namespace have moved away without the host: see HasStayed.
	Stayed bool
}

// PlanHost returns the next step of a host, by the phase that its Clusters want (GoalOf). The first row that fits
// counts.
//
//	goal                host                                           step
//	any                 being deleted by a move                        Leave
//	any                 paused, arrived on a leftover that is being    Keep
//	                    deleted, or that has a newer status
//	any                 paused, left by an earlier move                Keep
//	any                 paused, arrived on any other leftover          Restore
//	Parked, Running     last registered by another Ironic than the     MarkProvisioned: before anything else
//	                    holder, not provisioned, its Node has joined
//	Parked, Running     the same, and it is not known whether its      Hold
//	                    Node has joined, or the user has paused it
//	Parked              being deleted, paused by anybody               Leave: BMO would wipe what runs on it
//	Parked              busy and waited for, paused by the provider    Resume: BMO completes its work first
//	Parked              busy and waited for, anything else             Leave: PlanHost runs again when BMO is done
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
//	Running             paused by the provider, status lost, its Node  MarkProvisioned
//	                    has joined
//	Running             paused by the provider, status lost            Await
//	Running             paused by the provider, anything else          Resume
//	Running             last registered by another Ironic than the     Nudge
//	                    holder
//	Running             anything else                                  Leave
//
// Instead of Leave, a paused host whose reason is not true any more gets Explain, unless a move deletes it.
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

// planStaying is PlanHost for a host that no move deletes, whatever reason of its pause it has.
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
		return planResuming(host, facts.Joined)
	case another:
		return Nudge
	default:
		return Leave
	}
}

// planArrival is about leftovers of an earlier move that a host has arrived on. Leave means that the host is none.
func planArrival(host *bmov1alpha1.BareMetalHost, around []Neighbour, paused bool) Step {
	arrival := ArrivalOf(host)
	switch {
	case !paused:
		return Leave
	case Abandoned(host, around):
		return Keep
	case arrival == ArrivalPending:
		return Restore
	case arrival == ArrivalDeleted, arrival == ArrivalOutdated:
		return Keep
	default:
		return Leave
	}
}

// planInterrupted is about hosts whose Ironic was lost in the middle of its work. Leave means that they are as others.
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
	case paused && !host.DeletionTimestamp.IsZero():
		return Leave
	case Delays(host) != "" && ours:
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

func planResuming(host *bmov1alpha1.BareMetalHost, joined bool) Step {
	switch {
	case !LostStatus(host):
		return Resume
	case joined:
		return MarkProvisioned
	default:
		return Await
	}
}

// DependsOnNode says whether the next step may depend on the node of the host having joined.
func DependsOnNode(host *bmov1alpha1.BareMetalHost) bool { return unfinished(host) || LostStatus(host) }

// BeginsAnew says whether BMO would deploy the host from the beginning when it looks at it next: another
// Ironic answers than the one that had begun.
func BeginsAnew(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	return unfinished(host) && needsNudge(host, HolderFor(host, around))
}

// BringsStatus says whether BMO will take the status of a host up from the annotation.
func BringsStatus(host *bmov1alpha1.BareMetalHost) bool {
	return host.Status.LastUpdated.IsZero() && host.Annotations[bmov1alpha1.StatusAnnotation] != ""
}

// unfinished says whether a host was given an image and tells of a time before that was written: by its status, or by
// what it brings of that from another cluster. BMO would write it.
func unfinished(host *bmov1alpha1.BareMetalHost) bool {
	state := host.Status.Provisioning.State
	if BringsStatus(host) {
		var kept bmov1alpha1.BareMetalHostStatus
		if json.Unmarshal([]byte(host.Annotations[bmov1alpha1.StatusAnnotation]), &kept) == nil {
			state = kept.Provisioning.State
		}
	}
	switch state {
	case bmov1alpha1.StateProvisioning:
		return true
	case bmov1alpha1.StateUnmanaged, bmov1alpha1.StateRegistering, bmov1alpha1.StateMatchProfile,
		bmov1alpha1.StateInspecting, bmov1alpha1.StatePreparing, bmov1alpha1.StateReady, bmov1alpha1.StateAvailable:
		return hasImage(host)
	default:
		return false
	}
}

func hasImage(host *bmov1alpha1.BareMetalHost) bool {
	return (host.Spec.Image != nil || host.Spec.CustomDeploy != nil) && !host.Spec.ExternallyProvisioned
}

// markedProvisioned is the annotation that a host brings, with what it says of the deployment replaced: it is done.
func markedProvisioned(host *bmov1alpha1.BareMetalHost) string {
	brought := host.Annotations[bmov1alpha1.StatusAnnotation]
	var status map[string]any
	err := json.Unmarshal([]byte(brought), &status)
	deployed, tells := status["provisioning"].(map[string]any)
	if err != nil || !tells {
		return brought
	}
	deployed["state"] = bmov1alpha1.StateProvisioned
	// BMO compares these with the spec, and deprovisions where they differ.
	if host.Spec.Image != nil {
		deployed["image"] = host.Spec.Image
	}
	if host.Spec.CustomDeploy != nil {
		deployed["customDeploy"] = host.Spec.CustomDeploy
	}
	dropError(status)
	content, err := json.Marshal(status)
	if err != nil {
		return brought
	}
	return string(content)
}

// LostStatus returns true for a host that BMO has managed, that has an image, and that has no status, neither its own
// nor one that arrived in the annotation. Hosts out of a backup are such hosts. BMO would deploy the image again.
func LostStatus(host *bmov1alpha1.BareMetalHost) bool {
	return hasImage(host) && host.Status.Provisioning.State == bmov1alpha1.StateNone &&
		host.Annotations[bmov1alpha1.StatusAnnotation] == "" &&
		slices.Contains(host.Finalizers, bmov1alpha1.BareMetalHostFinalizer)
}

// Parked says whether a host can be copied to another cluster without losing anything: it is paused by whomever, and
// the annotation holds the status that it has. A host that BMO has never seen has no status to lose.
func Parked(host *bmov1alpha1.BareMetalHost) bool {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	return paused && recorded(host)
}

// HolderFor is the holder of the Ironic endpoint that a host depends on, the first one that is known. Nil if none is.
func HolderFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) *infrav1.IronicHolder {
	for _, other := range servedBy(host, around) {
		if other.Holder != nil {
			return other.Holder
		}
	}
	return nil
}

// outOfDate says whether a host tells of a holder although it depends on no Ironic endpoint of ours any more.
func outOfDate(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	_, told := host.Annotations[infrav1.IronicHolderAnnotation]
	return told && len(servedBy(host, around)) == 0
}

// HolderName is how a holder is written into the annotation that nudges a host: its kind, its name, and its term if it
// is known.
func HolderName(holder infrav1.IronicHolder) string {
	name := string(holder.Kind) + "/" + holder.Name
	if holder.Term != "" {
		name += "@" + holder.Term
	}
	return name
}

// needsNudge says whether another Ironic answers than the host was registered with. The first one is the management
// cluster's, and hosts need no annotation to be found by it.
func needsNudge(host *bmov1alpha1.BareMetalHost, holder *infrav1.IronicHolder) bool {
	if holder == nil || holder.Kind != infrav1.HolderManagement && holder.Kind != infrav1.HolderControlPlane {
		return false
	}
	known, nudged := host.Annotations[infrav1.IronicHolderAnnotation]
	if holder.Term == "" {
		// A term that Ironic does not report just now says nothing.
		known, _, _ = strings.Cut(known, "@")
	}
	return nudged && known != HolderName(*holder) || !nudged && holder.Kind == infrav1.HolderControlPlane
}

// Apply does a step on a copy of the host. It leaves out what needs the whole status: Record, Restore, and
// MarkProvisioned of a host that does not bring its status from another cluster.
func Apply(step Step, host *bmov1alpha1.BareMetalHost, around []Neighbour) *bmov1alpha1.BareMetalHost {
	changed := host.DeepCopy()
	switch step {
	case Pause, FenceOff, Hold:
		if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; !paused {
			metav1.SetMetaDataAnnotation(&changed.ObjectMeta, bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
			stamp(changed, around)
		}
		explain(changed, step)
	case Keep, Await, AwaitIronic:
		explain(changed, step)
	case Explain:
		explain(changed, pausedBecauseOf(host, around))
	case Stamp:
		stamp(changed, around)
	case Resume, Stay:
		delete(changed.Annotations, bmov1alpha1.PausedAnnotation)
		delete(changed.Annotations, infrav1.StatusOriginAnnotation)
		delete(changed.Annotations, infrav1.MoveEpochAnnotation)
		delete(changed.Annotations, infrav1.IronicClusterIDAnnotation)
		delete(changed.Annotations, infrav1.PauseReasonAnnotation)
		delete(changed.Annotations, infrav1.MoveWhileBusyAnnotation)
	case Nudge:
		holder := HolderFor(host, around)
		metav1.SetMetaDataAnnotation(&changed.ObjectMeta, infrav1.IronicHolderAnnotation, HolderName(*holder))
	case Forget:
		delete(changed.Annotations, infrav1.IronicHolderAnnotation)
	case MarkProvisioned:
		if BringsStatus(host) {
			changed.Annotations[bmov1alpha1.StatusAnnotation] = markedProvisioned(host)
		}
	case Leave, Settle, Record, Restore:
	}
	return changed
}
