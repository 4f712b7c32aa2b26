package metal3cluster

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

type condition = flow.Condition[*scope]

// conditions are the conditions of the kind that flow reports, in the order in which Ready sums them up.
// setReadyForMove reports ReadyForMove.
func (s *scope) conditions() []condition {
	if s.infra.Spec.Ironic == nil {
		return []condition{infrastructureReady, deleting}
	}
	return []condition{infrastructureReady, ironicReady, ironicUnique, deleting}
}

var (
	infrastructureReady = condition{
		Type: infrav1.InfrastructureReadyCondition, Initial: infrav1.WaitingForClusterReason,
		Failed: infrav1.InfrastructureFailedReason, Done: endpointFound,
	}
	// ironicReady is aside: the cluster is ready even if the Ironic endpoint does not answer.
	ironicReady = condition{
		Type: infrav1.IronicEndpointReadyCondition, Initial: infrav1.NotYetObservedReason,
		Failed: infrav1.EndpointFailedReason, Aside: true, Done: endpointAnswers,
	}
	ironicUnique = condition{
		Type: infrav1.IronicEndpointUniqueCondition, Initial: infrav1.NotYetObservedReason,
		Failed: infrav1.EndpointFailedReason, Aside: true,
		Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.EndpointUniqueReason} },
	}
	readyForMove = condition{Type: infrav1.ReadyForMoveCondition, Failed: infrav1.NotReadyForMoveReason, Aside: true}
	deleting     = condition{
		Type: infrav1.DeletingCondition, Initial: infrav1.DeletingReason, Failed: infrav1.ReleaseFailedReason,
		Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.DeletingReason} },
	}
)

// endpointAnswers returns the reason and message of an Ironic endpoint that answers. A Secret without its owner and a
// certificate that ends soon change the reason, which emits an event, and not the status.
func endpointAnswers(s *scope) flow.Reached {
	reached := flow.Reached{Reason: infrav1.EndpointAnswersReason}
	if s.verdict != nil {
		reached.Message = s.verdict.Message
	}
	if s.unowned != nil {
		reached.Reason = infrav1.EndpointFailedReason
		reached.Message += "; " + s.unowned.Error()
	}
	if s.certificateEnds != "" {
		reached.Reason = infrav1.EndpointCertificateEndsReason
		reached.Message += ". " + s.certificateEnds
	}
	if s.outdatedNodes != "" {
		reached.Message += ". " + s.outdatedNodes
	}
	return reached
}

// announce returns the changes of conditions that become events.
func announce() flow.Announcement {
	quiet := []string{
		infrav1.ReadyCondition, infrav1.ReadyForMoveCondition, infrav1.MoveInProgressCondition,
		infrav1.EndpointUniqueReason, infrav1.WaitingForClusterReason, clusterv1.NotPausedReason,
		infrav1.NotYetObservedReason,
	}
	trouble := []string{
		infrav1.EndpointMissingReason, infrav1.IronicSecretInvalidReason, infrav1.EndpointForeignReason,
		infrav1.EndpointUntrustedReason, infrav1.EndpointUnauthorizedReason, infrav1.EndpointBrokenReason,
		infrav1.EndpointUnsupportedReason, infrav1.ManagedElsewhereReason, infrav1.VirtualIPTakenReason,
		infrav1.VirtualRouterIDTakenReason,
		infrav1.InfrastructureFailedReason, infrav1.EndpointFailedReason,
		infrav1.ReleaseFailedReason, infrav1.EndpointSharedReason, infrav1.EndpointCertificateEndsReason,
	}
	return flow.Milestones(quiet, trouble)
}

// setStatus sets ReadyForMove and the fields of the status.
func setStatus(s *scope, results flow.Results) {
	setReadyForMove(s, results)
	setMoveInProgress(s)
	if s.pause != "" {
		forgetEndpoint(s)
		return
	}
	s.infra.Status.FailureDomains = s.infra.Spec.FailureDomains
	s.infra.Status.Deprecated = flow.WithoutOldConditions(s.infra.Status.Deprecated)
	setIronic(s)
}

// setReadyForMove reports whether a move would succeed, or a running move may continue. The first matching row
// applies.
//
//	paused             and                    condition
//	the Cluster        a write conflicted     False, NotReadyForMove: the gate is not checked yet
//	the Cluster        the gate failed        False, NotReadyForMove: the gate is retried
//	the Cluster        all hosts are paused   True, HostsPaused, also while clusterctl copies and deletes
//	the Cluster        a host is not paused   False, WaitingForHosts
//	the Metal3Cluster                         False, NotReadyForMove: no obstacle is observed
//	none               a write conflicted     unchanged: the obstacles are not read yet
//	none               nodes not probed yet   unchanged, if it was set
//	none               obstacles              False, NotReadyForMove
//	none               no obstacle            True, ReadyForMove
func setReadyForMove(s *scope, results flow.Results) {
	if !s.reportsMove() {
		return
	}
	moving := ptr.Deref(s.cluster.Spec.Paused, false)
	condition := metav1.Condition{
		Type: infrav1.ReadyForMoveCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyForMoveReason,
	}
	waits, known := results.Of(infrav1.ReadyForMoveCondition)
	switch {
	case moving && !known:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.NotReadyForMoveReason
		condition.Message = "The move waits: the manager has not checked the gate yet"
	case moving && waits.IsDone():
		condition.Reason = infrav1.MovableReason
	case moving:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, waits.Reason, waits.Message
	case s.pause != "":
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.NotReadyForMoveReason
		condition.Message = fmt.Sprintf("Not ready for clusterctl move: Metal3Cluster %s is paused: remove its annotation %s",
			s.infra.Name, clusterv1.PausedAnnotation)
	case !known, s.awaitsNodes() && waits.Err == nil:
		return
	default:
		if obstacles := obstaclesOf(s, results); len(obstacles) > 0 {
			condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.NotReadyForMoveReason
			condition.Message = "Not ready for clusterctl move: " + pivot.Enumerate(obstacles)
		}
	}
	conditions.Set(s.infra, condition)
}

// awaitsNodes returns true until the first probe of the nodes, if an earlier process has set ReadyForMove.
func (s *scope) awaitsNodes() bool {
	return s.nodesPending && conditions.Has(s.infra, infrav1.ReadyForMoveCondition)
}

func setMoveInProgress(s *scope) {
	if !s.reportsMove() {
		return
	}
	_, gated := s.infra.Annotations[infrav1.BlockMoveAnnotation]
	paused := ptr.Deref(s.cluster.Spec.Paused, false)
	progress := pivot.ProgressOf(s.cluster.Name, paused, gated, s.move.Hosts, s.move.Around)
	condition := metav1.Condition{
		Type: infrav1.MoveInProgressCondition, Status: metav1.ConditionFalse, Reason: progress.Reason,
		Message: progress.Message,
	}
	if progress.Moving {
		condition.Status = metav1.ConditionTrue
	}
	conditions.Set(s.infra, condition)
}

// obstaclesOf returns the obstacles of a move that begins now.
func obstaclesOf(s *scope, results flow.Results) []pivot.Obstacle {
	s.move.Endpoint = results[infrav1.IronicEndpointReadyCondition].Outcome
	obstacles := pivot.Obstacles(s.move)
	for _, conflict := range s.conflicts {
		obstacles = append(obstacles, s.move.Infra.Blocks(pivot.CodeEndpointTaken, "", "%s", conflict))
	}
	if gate := results[infrav1.ReadyForMoveCondition]; gate.Err != nil {
		obstacles = append(obstacles, s.move.Infra.Blocks(pivot.CodeManagerNotReady, "", "%s", gate.Message))
	}
	return obstacles
}

// forgetEndpoint sets IronicEndpointReady to Unknown while the Cluster is paused: the endpoint is not probed,
// and another Ironic may answer when the Cluster runs again.
func forgetEndpoint(s *scope) {
	if s.infra.Spec.Ironic == nil || s.cluster == nil || !ptr.Deref(s.cluster.Spec.Paused, false) ||
		!pivot.Verified(s.infra) {
		return
	}
	conditions.Set(s.infra, metav1.Condition{
		Type: infrav1.IronicEndpointReadyCondition, Status: metav1.ConditionUnknown, Reason: infrav1.NotYetObservedReason,
		Message: "The Ironic endpoint is not probed while the Cluster is paused",
	})
}

// setIronic sets status.ironic. Fields that this reconcile did not observe stay.
func setIronic(s *scope) {
	if s.infra.Spec.Ironic == nil {
		conditions.Delete(s.infra, infrav1.IronicEndpointReadyCondition)
		conditions.Delete(s.infra, infrav1.IronicEndpointUniqueCondition)
		s.infra.Status.Ironic = nil
		return
	}
	if s.infra.Status.Ironic == nil {
		s.infra.Status.Ironic = &infrav1.IronicStatus{}
	}
	status := s.infra.Status.Ironic
	if s.plane != nil {
		status.Nodes = nodesStatus(s.plane)
	}
	if s.verdict != nil {
		status.Holder, status.KnownHosts = s.verdict.Holder, s.verdict.KnownHosts
	}
	if s.standing != "" {
		status.ManagedElsewhere = s.claimElsewhere()
	}
	if equality.Semantic.DeepEqual(*status, infrav1.IronicStatus{}) {
		// The schema rejects an empty status.ironic.
		s.infra.Status.Ironic = nil
	}
}
