package flow

import (
	"context"
	"errors"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// ConflictDelay is the time until the next reconcile after a write conflict. By then the cache usually shows the other
// write.
const ConflictDelay = 200 * time.Millisecond

// Reached is the reason and message of a condition after its stages are done.
type Reached struct{ Reason, Message string }

// Condition describes the condition of one or more stages. For an object that is being deleted, Run sets Deleting,
// which is always true, and of the others only those aside that have a stage.
type Condition[S any] struct {
	// Type of the condition.
	Type string

	// Initial is the reason before the stages run.
	Initial string

	// Failed is the reason after an error of a stage.
	Failed string

	// Done returns reason and message after all stages of the condition are done. Required.
	Done func(scope S) Reached

	// Aside excludes the condition from Ready. Its stages do not stop the stages of other conditions.
	Aside bool
}

// Stage is one step of a reconcile with its condition. The condition is true after the last of its stages is done.
type Stage[S any] struct {
	Condition[S]

	// Run returns the outcome of the step.
	Run func(ctx context.Context, scope S) (outcome.Outcome, error)
}

// Stage returns a stage of this condition.
func (c Condition[S]) Stage(run func(ctx context.Context, scope S) (outcome.Outcome, error)) Stage[S] {
	return Stage[S]{Condition: c, Run: run}
}

// KeepFinalizer returns a stage that adds a finalizer to the object of the pass. The next write of the pass stores it.
func (c Condition[S]) KeepFinalizer(object client.Object, finalizer string) Stage[S] {
	return c.Stage(func(context.Context, S) (outcome.Outcome, error) {
		controllerutil.AddFinalizer(object, finalizer)
		return outcome.Done(), nil
	})
}

// DropFinalizer returns a stage that removes a finalizer from the object of the pass. The last write of the pass stores
// this.
func (c Condition[S]) DropFinalizer(object client.Object, finalizer string) Stage[S] {
	return c.Stage(func(context.Context, S) (outcome.Outcome, error) {
		controllerutil.RemoveFinalizer(object, finalizer)
		return outcome.Done(), nil
	})
}

// Plan is one reconcile of an object.
type Plan[S any] struct {
	// Paused is the result of the function Paused. Unless it is empty, Run sets only the condition and calls Status.
	Paused string

	// Elsewhere is true if another management cluster manages the Cluster. Run then does the same as for Paused.
	Elsewhere bool

	// Conditions are all conditions of the kind, in the order for Ready.
	Conditions []Condition[S]

	// Stages of this reconcile, in order.
	Stages []Stage[S]

	// Status sets the other fields of the status. Nil sets none.
	Status func(scope S, results Results)
}

// Results are the outcomes of the stages of one reconcile, by the type of their condition.
type Results map[string]Result

// Result is the outcome of the stages of one condition.
type Result struct {
	outcome.Outcome

	// Err is the error of the failed stage. Nil if none failed.
	Err error

	// pending is the number of stages that have not run.
	pending int
}

// Of returns the outcome of the stages of a condition. It returns false if an earlier stage or a write conflict stopped
// the reconcile.
func (r Results) Of(conditionType string) (Result, bool) {
	result, known := r[conditionType]
	return result, known && (result.pending == 0 || !result.IsDone())
}

// Run runs the stages in order up to the first one that is not done, and sets their conditions and Ready. It returns
// the errors of the stages and of the writes. After a write conflict it requeues the object after ConflictDelay.
func Run[S any](ctx context.Context, pass *Pass, scope S, plan Plan[S]) (ctrl.Result, error) {
	results, after, err := plan.act(ctx, scope)
	return pass.End(ctx, outcome.Done().WithAfter(after), err, func() { plan.report(pass.object, scope, results) })
}

func (p Plan[S]) act(ctx context.Context, scope S) (Results, time.Duration, error) {
	results := Results{}
	for _, stage := range p.Stages {
		result := results[stage.Type]
		result.pending++
		results[stage.Type] = result
	}
	var after time.Duration
	var failures []error
	for _, stage := range p.Stages {
		result := results[stage.Type]
		if !result.IsDone() {
			continue
		}
		ran, err := stage.Run(ctx, scope)
		conflicted := err != nil
		if err = withoutConflicts(err); err == nil && conflicted {
			return results, Soonest(after, ConflictDelay), errors.Join(failures...)
		}
		if err != nil {
			failures = append(failures, err)
			ran = outcome.Waiting(stage.Failed, describe(err))
		}
		// Status may copy the message to another field than a condition.
		ran.Message = shorten(ran.Message, messageLimit)
		results[stage.Type] = Result{Outcome: ran, Err: err, pending: result.pending - 1}
		after = Soonest(after, ran.After)
		if !ran.IsDone() && !stage.Aside {
			break
		}
	}
	return results, after, errors.Join(failures...)
}

// withoutConflicts returns an error without the write conflicts that are joined in it. It returns nil if there is no
// other error: a conflict of one object must not hide the error of another one.
func withoutConflicts(err error) error {
	parts := []error{err}
	if joined, isJoined := err.(interface{ Unwrap() []error }); isJoined { // A wrapped one stays whole.
		parts = joined.Unwrap()
	}
	others := slices.DeleteFunc(slices.Clone(parts), apierrors.IsConflict)
	if len(others) == len(parts) {
		return err
	}
	return errors.Join(others...)
}

// Soonest returns the shorter of two durations. Zero means never.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (p Plan[S]) report(object Object, scope S, results Results) {
	stopped := p.Paused != "" || p.Elsewhere
	SetPaused(object, p.Paused, p.Elsewhere)
	if !stopped {
		p.setConditions(object, scope, results)
	}
	if p.Status != nil {
		p.Status(scope, results)
	}
	if !stopped {
		p.setReady(object)
	}
}

// setReady sets Ready from the conditions, unless Ready is the condition of a stage.
func (p Plan[S]) setReady(object Object) {
	var stages []string
	for _, condition := range p.Conditions {
		switch {
		case condition.Type == clusterv1.ReadyCondition:
			return
		case !condition.Aside:
			stages = append(stages, condition.Type)
		}
	}
	SetReady(object, stages...)
}

// setConditions sets the conditions in their order.
//
//	stages of the condition                     the condition is
//	are done                                    true
//	wait or are blocked                         false
//	failed                                      see failedStatus
//	did not run, an earlier condition is false  false, with the initial reason: it cannot be true, unless it is aside
//	did not run for another reason              as it was; if it never was, false with the initial reason, but
//	                                            absent on an object that is ready
func (p Plan[S]) setConditions(object Object, scope S, results Results) {
	deleting := !object.GetDeletionTimestamp().IsZero()
	stopped := false
	for _, condition := range p.Conditions {
		_, planned := results[condition.Type]
		if deleting != (condition.Type == clusterv1.DeletingCondition) && !(deleting && condition.Aside && planned) {
			continue
		}
		result, known := results.Of(condition.Type)
		condition.set(object, scope, result, known, stopped && !condition.Aside)
		stopped = stopped || known && !result.IsDone() && result.Err == nil && !condition.Aside
	}
}
