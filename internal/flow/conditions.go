package flow

import (
	"errors"
	"net"
	"strings"
	"unicode"
	"unicode/utf8"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// set sets the condition on the object. known is true if its stages ran, stopped if an earlier condition is false.
func (c Condition[S]) set(object Object, scope S, result Result, known, stopped bool) {
	condition := metav1.Condition{Type: c.Type, Status: metav1.ConditionFalse}
	switch {
	case known && result.IsDone():
		done := c.Done(scope)
		condition.Status, condition.Reason, condition.Message = metav1.ConditionTrue, done.Reason, done.Message
	case known && result.Err != nil:
		condition.Status = failedStatus(object, c.Type, result.Err, !c.Aside)
		condition.Reason, condition.Message = result.Reason, result.Message
	case known:
		condition.Reason, condition.Message = result.Reason, result.Message
	case stopped, !conditions.Has(object, c.Type) && !conditions.IsTrue(object, clusterv1.ReadyCondition):
		condition.Reason = c.Initial
	default:
		return
	}
	if c.Type == clusterv1.DeletingCondition {
		condition.Status = metav1.ConditionTrue
	}
	conditions.Set(object, condition)
}

// failedStatus returns the status of a condition after an error of its stage. The status is false if a retry cannot
// succeed. Any other error, such as a timeout, keeps a true condition true. A missing condition that is in Ready counts
// as true on a ready object: CAPM3 reported the object as ready without it.
func failedStatus(object Object, conditionType string, err error, inReady bool) metav1.ConditionStatus {
	wasTrue := conditions.IsTrue(object, conditionType) ||
		inReady && !conditions.Has(object, conditionType) && conditions.IsTrue(object, clusterv1.ReadyCondition)
	if wasTrue && !isFinal(err) {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// isFinal returns true for an answer of the API server that a repetition of the same request cannot change.
func isFinal(err error) bool {
	return outcome.IsRefused(err) || apierrors.IsConflict(err) || apierrors.IsNotFound(err)
}

// describe returns the message of a condition for an error. It omits the local port of a connection, so that a retry
// with the same error does not write the status again.
func describe(err error) string {
	const limit = 1024
	text := err.Error()
	var broken *net.OpError
	if errors.As(err, &broken) && broken.Source != nil {
		stable := *broken
		stable.Source = nil
		text = strings.ReplaceAll(text, broken.Error(), stable.Error())
	}
	text = shorten(strings.ReplaceAll(text, "\n", "; "), limit)
	first, size := utf8.DecodeRuneInString(text)
	return string(unicode.ToUpper(first)) + text[size:]
}

// messageLimit is the maximum length of the message of a condition in bytes. The API server refuses a status with a
// message of over 32768 characters, and Cluster API joins the messages of several objects.
const messageLimit = 4096

// shortenMessages shortens the messages of all conditions to messageLimit.
func shortenMessages(object Object) {
	list := object.GetConditions()
	for i := range list {
		list[i].Message = shorten(list[i].Message, messageLimit)
	}
	object.SetConditions(list)
}

// shorten truncates a text to a number of bytes, at the boundary of a character.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "")
}

// SetReady sets Ready from the conditions: it copies the first one that is not true. An object that is being deleted is
// not ready.
func SetReady(object Object, stages ...string) {
	ready := metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ReadyReason,
	}
	for _, stage := range stages {
		condition := conditions.Get(object, stage)
		if stage == clusterv1.DeletingCondition || condition == nil || condition.Status == metav1.ConditionTrue {
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

// SetPaused sets the condition Paused. Paused is the result of the function Paused. Elsewhere means that another
// management cluster manages the Cluster.
func SetPaused(object Object, paused string, elsewhere bool) {
	condition := metav1.Condition{
		Type: clusterv1.PausedCondition, Status: metav1.ConditionFalse, Reason: clusterv1.NotPausedReason,
	}
	var causes []string
	if elsewhere {
		condition.Status, condition.Reason = metav1.ConditionTrue, infrav1.ManagedElsewhereReason
		causes = append(causes, "Another management cluster manages the Cluster: see condition "+
			infrav1.IronicEndpointReadyCondition+" of the Metal3Cluster")
	}
	if paused != "" {
		condition.Status, condition.Reason = metav1.ConditionTrue, clusterv1.PausedReason
		causes = append(causes, paused)
	}
	condition.Message = strings.Join(causes, ". ")
	conditions.Set(object, condition)
}

// WithoutOldConditions removes the conditions in the format of v1beta1, which CAPM3 wrote and this provider does not
// update.
func WithoutOldConditions(old *infrav1.DeprecatedStatus) *infrav1.DeprecatedStatus {
	if old == nil || old.V1Beta1 == nil || len(old.V1Beta1.Conditions) == 0 {
		return old
	}
	if old.V1Beta1.FailureReason == "" && old.V1Beta1.FailureMessage == "" {
		return nil
	}
	rest := old.DeepCopy()
	rest.V1Beta1.Conditions = nil
	return rest
}
