// Package flow implements the phases of every reconcile: observe, act, report.
//
// Observe reads the input of all decisions. An object that does not exist is not an error. Run runs the stages in order
// up to the first one that is not done. It sets the condition of each stage from its outcome or error, and Ready from
// all conditions. It writes metadata and spec, then the status, each only if it changed. It emits an event for each
// condition that changed.
//
// No other code sets conditions. A reconcile never requeues immediately: a watch or a timer ends every wait, errors are
// retried with back-off, and a write conflict is retried after ConflictDelay without an error.
package flow

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/annotations"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Observation reads one part of the input into the scope.
type Observation[S any] func(ctx context.Context, scope S) error

// Observe runs the observations in order and returns the first error. After an error the caller must not report: the
// scope lacks objects that exist.
func Observe[S any](ctx context.Context, scope S, observations ...Observation[S]) error {
	for _, observation := range observations {
		if err := observation(ctx, scope); err != nil {
			return err
		}
	}
	return nil
}

// ReadFailed ends a pass after a failed observation and reports the error in Ready.
func ReadFailed(ctx context.Context, pass *Pass, err error) (ctrl.Result, error) {
	return pass.End(ctx, outcome.Done(), err, func() { pass.setFailed(infrav1.ReadFailedReason, err) })
}

// Paused returns why the controller must not act, and what ends the pause: the Cluster is paused, or one of the
// objects. Empty means that none is paused. A nil cluster counts as not paused.
func Paused(cluster *clusterv1.Cluster, objects ...client.Object) string {
	var causes []string
	if cluster != nil && ptr.Deref(cluster.Spec.Paused, false) {
		causes = append(causes, fmt.Sprintf("spec.paused of Cluster %s is true: %s", cluster.Name,
			pivot.UnpauseRemedy(cluster.Namespace)))
	}
	for _, object := range objects {
		if annotations.HasPaused(object) {
			causes = append(causes, fmt.Sprintf("%s %s has the annotation %s: remove the annotation", kindOf(object),
				object.GetName(), clusterv1.PausedAnnotation))
		}
	}
	return strings.Join(causes, ". ")
}

func result(reached outcome.Outcome, errs ...error) (ctrl.Result, error) {
	if err := errors.Join(errs...); err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: reached.After}, nil
}
