package metal3cluster

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

func announce() flow.Announcement {
	quiet := []string{
		infrav1.ReadyCondition, infrav1.ReadyForMoveCondition, infrav1.EndpointUniqueReason, infrav1.WaitingForClusterReason,
		clusterv1.NotPausedReason, infrav1.NotYetObservedReason,
	}
	trouble := []string{
		infrav1.EndpointMissingReason, infrav1.IronicSecretInvalidReason, infrav1.EndpointForeignReason,
		infrav1.EndpointUntrustedReason, infrav1.EndpointUnauthorizedReason, infrav1.EndpointBrokenReason,
		infrav1.EndpointUnsupportedReason, infrav1.VirtualIPTakenReason, infrav1.VirtualRouterIDTakenReason,
	}
	return flow.Milestones(quiet, trouble)
}

// setStatus reports what the reconcile saw. It is the only writer of conditions.
func setStatus(s *scope) {
	flow.SetPaused(s.infra, s.paused)
	setReadyForMove(s)
	if s.paused {
		forgetEndpoint(s)
		return
	}
	s.infra.Status.FailureDomains = s.infra.Spec.FailureDomains
	setDeleting(s)
	setIronic(s)
	flow.SetStage(s.infra, infrav1.InfrastructureReadyCondition, s.reached,
		flow.Reached{Reason: infrav1.InfrastructureReadyReason, Message: disagreement(s)}, infrav1.WaitingForClusterReason)
	// The Ironic endpoint is not among the stages: whether it answers must not keep anything from being provisioned.
	flow.SetReady(s.infra, infrav1.InfrastructureReadyCondition)
}

// setReadyForMove reports whether a move would go through, or, while one is under way, whether it may go on. The first
// row that fits counts.
//
//	paused is          and                    the condition is
//	the Cluster        the gate failed        False, NotReadyForMove: the gate is tried again
//	the Cluster        all hosts are parked   True, HostsPaused
//	the Cluster        hosts are not parked   False, WaitingForHosts
//	the Metal3Cluster                         False, NotReadyForMove: nobody sees what gets in the way
//	nobody             obstacles              False, NotReadyForMove
//	nobody             no obstacle            True, ReadyForMove
func setReadyForMove(s *scope) {
	if !s.caresForMove() {
		return
	}
	moving := ptr.Deref(s.cluster.Spec.Paused, false)
	condition := metav1.Condition{
		Type: infrav1.ReadyForMoveCondition, Status: metav1.ConditionTrue, Reason: infrav1.ReadyForMoveReason,
	}
	waits, asked := s.reached[infrav1.ReadyForMoveCondition]
	switch {
	case moving && !asked:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.NotReadyForMoveReason
		condition.Message = "The move waits: the manager has not judged the gate yet"
	case moving && waits.IsDone():
		condition.Reason = infrav1.MovableReason
	case moving:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionFalse, waits.Reason, waits.Message
	case s.paused:
		condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.NotReadyForMoveReason
		condition.Message = fmt.Sprintf("Not ready for clusterctl move: Metal3Cluster %s is paused: remove its annotation %s",
			s.infra.Name, clusterv1.PausedAnnotation)
	default:
		s.move.Endpoint = s.reached[infrav1.IronicEndpointReadyCondition]
		obstacles := append(pivot.Obstacles(s.move), s.rivals...)
		if s.aside != nil {
			obstacles = append(obstacles, s.aside.Error())
		}
		if len(obstacles) > 0 {
			condition.Status, condition.Reason = metav1.ConditionFalse, infrav1.NotReadyForMoveReason
			condition.Message = "Not ready for clusterctl move: " + pivot.Enumerate(obstacles)
		}
	}
	conditions.Set(s.infra, condition)
}

// forgetEndpoint takes back that the Ironic endpoint answers while the Cluster is paused: nobody probes it, and another
// Ironic may answer when the Cluster runs again.
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

// setIronic reports the Ironic endpoint. What was not looked at this time stays as it was.
func setIronic(s *scope) {
	switch {
	case s.infra.Spec.Ironic == nil:
		conditions.Delete(s.infra, infrav1.IronicEndpointReadyCondition)
		conditions.Delete(s.infra, infrav1.IronicEndpointUniqueCondition)
		s.infra.Status.Ironic = nil
		return
	case !s.infra.DeletionTimestamp.IsZero():
		return
	}
	done := flow.Reached{Reason: infrav1.EndpointAnswersReason}
	if s.verdict != nil {
		done.Message = s.verdict.Message
	}
	flow.SetStage(s.infra, infrav1.IronicEndpointReadyCondition, s.reached, done, infrav1.NotYetObservedReason)
	flow.SetStage(s.infra, infrav1.IronicEndpointUniqueCondition, s.reached,
		flow.Reached{Reason: infrav1.EndpointUniqueReason}, infrav1.NotYetObservedReason)
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
	if status.Holder == nil && status.KnownHosts == nil && len(status.Nodes) == 0 {
		// An empty one is refused.
		s.infra.Status.Ironic = nil
	}
}

func setDeleting(s *scope) {
	if s.infra.DeletionTimestamp.IsZero() {
		return
	}
	condition := metav1.Condition{
		Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.DeletingReason,
	}
	if result, waits := s.reached[infrav1.DeletingCondition]; waits {
		condition.Reason, condition.Message = result.Reason, result.Message
	}
	conditions.Set(s.infra, condition)
}

// disagreement tells when Cluster and Metal3Cluster name different endpoints: Cluster API keeps the one of the Cluster.
func disagreement(s *scope) string {
	if s.cluster == nil {
		return ""
	}
	used := s.cluster.Spec.ControlPlaneEndpoint
	if !used.IsValid() || used == s.endpoint {
		return ""
	}
	return fmt.Sprintf("Cluster %s uses control-plane endpoint %s, not %s of the Metal3Cluster",
		s.cluster.Name, used.String(), s.endpoint.String())
}
