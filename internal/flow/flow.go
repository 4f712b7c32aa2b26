// Package flow is the shape of every reconcile: observe, act, report.
//
// Observe reads everything that a decision needs. An object that does not exist is data, not an error. Run runs stages
// in order, up to the first one that is not done. It records the outcome or the error of each stage under the condition
// of that stage, sums them up as Ready, writes the object at most twice (metadata and spec, then the status) and only
// where something changed, and emits an event for each condition that changed.
//
// It writes conditions nowhere else, and it never requeues at once: a watch or a timer ends every wait, back-off
// repeats what failed, and a conflict is repeated after a short delay without showing.
package flow

import (
	"context"
	"errors"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Observation reads one part of what a reconcile needs into the scope.
type Observation[S any] func(ctx context.Context, scope S) error

// Observe runs the observations in order and returns the first error. Nothing may be reported after an error: what was
// not read would look as if it did not exist.
func Observe[S any](ctx context.Context, scope S, observations ...Observation[S]) error {
	for _, observation := range observations {
		if err := observation(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}

// ReadFailed ends a pass whose observation failed. No stage runs, and Ready reports the error.
func ReadFailed(ctx context.Context, pass *Pass, err error) (ctrl.Result, error) {
	return pass.End(ctx, outcome.Done(), err, func() { pass.setFailed(infrav1.ReadFailedReason, err) })
}

// Moving returns true while clusterctl move deletes the object. Its annotations, and with them a pause, are gone, so no
// controller may act on it or write it.
func Moving(object client.Object) bool {
	_, moving := object.GetAnnotations()[infrav1.DeleteForMoveAnnotation]
	return moving
}

// Paused returns true if the object or its Cluster is paused. A nil cluster counts as not paused.
func Paused(cluster *clusterv1.Cluster, object client.Object) bool {
	if cluster == nil {
		return annotations.HasPaused(object)
	}
	return annotations.IsPaused(cluster, object)
}

func result(reached outcome.Outcome, errs ...error) (ctrl.Result, error) {
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: reached.After}, nil
}
