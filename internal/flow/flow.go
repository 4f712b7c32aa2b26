// Package flow is the shape that every reconcile has: observe, act, report.
//
// Observing reads all there is to know; what is missing is data, not an error. Acting runs phases in order and stops
// at the first one that is not done. Reporting sets the conditions from what was seen, writes the object at most
// twice (metadata and spec, then status) and only where something changed, and emits an event for each condition that
// changed.
//
// It refuses to write conditions anywhere else, and it never asks for an immediate requeue: a phase that waits is
// woken by a watch, or says when to look again.
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

// Phase is one step of acting. It stops the phases after it unless its outcome is done.
type Phase[S any] func(ctx context.Context, scope S) (outcome.Outcome, error)

// Observation is one step of observing.
type Observation[S any] func(ctx context.Context, scope S) error

// Observe runs all observations in order, up to the first error.
func Observe[S any](ctx context.Context, scope S, observations ...Observation[S]) error {
	for _, observation := range observations {
		if err := observation(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}

// Act runs the phases in order, up to the first one that fails or is not done.
func Act[S any](ctx context.Context, scope S, phases ...Phase[S]) (outcome.Outcome, error) {
	for _, phase := range phases {
		result, err := phase(ctx, scope)
		if err != nil || !result.IsDone() {
			return result, err
		}
	}
	return outcome.Done(), nil
}

// Moving says whether clusterctl move is deleting the object. Its annotations, and with them a pause, are gone already,
// so nobody may act on it or write it.
func Moving(object client.Object) bool {
	_, moving := object.GetAnnotations()[infrav1.DeleteForMoveAnnotation]
	return moving
}

// Paused says whether the object or its Cluster is paused. A nil cluster counts as not paused.
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
