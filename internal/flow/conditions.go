package flow

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Reached is what a condition says once its stage is done.
type Reached struct{ Reason, Message string }

// SetStage sets the condition that reports one stage. The outcome of the stage decides; a stage that did not run
// keeps its condition, and a condition that was never set is false with the given initial reason.
func SetStage(object Object, conditionType string, outcomes map[string]outcome.Outcome, done Reached, initial string) {
	result, ran := outcomes[conditionType]
	condition := metav1.Condition{Type: conditionType, Status: metav1.ConditionFalse}
	switch {
	case ran && result.IsDone():
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, done.Reason, done.Message
	case ran:
		condition.Reason, condition.Message = result.Reason, result.Message
	case conditions.Has(object, conditionType):
		return
	default:
		condition.Reason = initial
	}
	conditions.Set(object, condition)
}

// SetReady sums up the stages: it repeats the first one that is not true. An object that is being deleted is not ready.
func SetReady(object Object, stages ...string) {
	ready := metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason,
	}
	for _, stage := range stages {
		condition := conditions.Get(object, stage)
		if condition == nil || condition.Status == metav1.ConditionTrue {
			continue
		}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, condition.Reason, condition.Message
		break
	}
	if deleting := conditions.Get(object, clusterv1.DeletingCondition); deleting != nil &&
		deleting.Status == metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, clusterv1.DeletingReason, deleting.Message
	}
	conditions.Set(object, ready)
}

// SetPaused reports whether the object is paused.
func SetPaused(object Object, paused bool) {
	condition := metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason,
	}
	if paused {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		condition.Message = "The object or its Cluster is paused"
	}
	conditions.Set(object, condition)
}
