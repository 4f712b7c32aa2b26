package flow

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// ConflictDelay is the time until the next reconcile of an object after a write conflict. The cache usually shows the
// other write by then.
const ConflictDelay = 200 * time.Millisecond

// Reached is what a condition says once its stages are done.
type Reached struct{ Reason, Message string }

// Condition describes the condition that reports one or more stages. Deleting is always true and is the only condition
// that is reported for an object that is being deleted.
type Condition[S any] struct {
	// Type of the condition.
	Type string

	// Initial is the reason before the stages have run.
	Initial string

	// Failed is the reason when a stage returns an error.
	Failed string

	// Done returns reason and message when all stages of the condition are done. Required.
	Done func(scope S) Reached

	// Aside keeps the condition out of Ready. A stage that is not done does not stop the stages of other conditions.
	Aside bool
}

// Stage is one step of a reconcile with the condition that reports it. The condition becomes true when the last of its
// stages is done.
type Stage[S any] struct {
	Condition[S]

	// Run returns the outcome of the step.
	Run func(ctx context.Context, scope S) (outcome.Outcome, error)
}

// Stage returns a stage that this condition reports.
func (c Condition[S]) Stage(run func(ctx context.Context, scope S) (outcome.Outcome, error)) Stage[S] {
	return Stage[S]{Condition: c, Run: run}
}

// Plan is one reconcile of an object: what it does and what it reports.
type Plan[S any] struct {
	// Paused says that the object or its Cluster is paused. A paused object reports Paused and what Status sets.
	Paused bool

	// Conditions are all conditions of the kind, in the order in which Ready sums them up.
	Conditions []Condition[S]

	// Stages of this reconcile, in order.
	Stages []Stage[S]

	// Status sets the other fields of the status. Nil sets none.
	Status func(scope S, results Results)

	// Conflict returns true for errors that are write conflicts besides those of the API server. Nil means none.
	Conflict func(err error) bool
}

// Results are the outcomes of the stages of one reconcile, by the type of their condition.
type Results map[string]Result

// Result is the outcome of the stages of one condition.
type Result struct {
	outcome.Outcome

	// Err is the error of the stage that failed. The outcome then says so. Nil when none failed.
	Err error

	// pending is the number of stages that have not run.
	pending int
}

// Of returns the outcome of the stages of a condition, and false while it is not known: a stage before them stopped the
// reconcile, or a write conflicted.
func (r Results) Of(conditionType string) (Result, bool) {
	result, known := r[conditionType]
	return result, known && (result.pending == 0 || !result.IsDone())
}

// Run runs the stages of the plan in order, up to the first one that is not done, and reports them: the outcome or the
// error of each stage under its condition, and Ready as their sum. It returns the errors of the stages and of the
// writes. A write conflict is not an error: the object is requeued after ConflictDelay.
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
		if p.isConflict(err) {
			return results, Soonest(after, ConflictDelay), errors.Join(failures...)
		}
		if err != nil {
			failures = append(failures, err)
			ran = outcome.Waiting(stage.Failed, describe(err))
		}
		results[stage.Type] = Result{Outcome: ran, Err: err, pending: result.pending - 1}
		after = Soonest(after, ran.After)
		if !ran.IsDone() && !stage.Aside {
			break
		}
	}
	return results, after, errors.Join(failures...)
}

func (p Plan[S]) isConflict(err error) bool {
	return err != nil && (apierrors.IsConflict(err) || p.Conflict != nil && p.Conflict(err))
}

// Soonest returns the shorter of two times, where zero means never.
func Soonest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func (p Plan[S]) report(object Object, scope S, results Results) {
	SetPaused(object, p.Paused)
	if !p.Paused {
		p.setConditions(object, scope, results)
	}
	if p.Status != nil {
		p.Status(scope, results)
	}
	if !p.Paused {
		p.setReady(object)
	}
}

// setReady sums up the conditions, unless Ready is the condition of a stage itself.
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
		if deleting != (condition.Type == clusterv1.DeletingCondition) {
			continue
		}
		result, known := results.Of(condition.Type)
		condition.set(object, scope, result, known, stopped && !condition.Aside)
		stopped = stopped || known && !result.IsDone() && result.Err == nil && !condition.Aside
	}
}
