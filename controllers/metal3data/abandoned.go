package metal3data

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/cluster-api/util/labels"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// watchPools starts the watches of the claims of rendered data, so that the manager observes claims without data. It
// only logs an error, because rendered data does not require the claims.
func (r *Reconciler) watchPools(ctx context.Context, s *scope) {
	if s.template == nil || s.machine == nil || s.owner == nil || s.host == nil {
		return
	}
	uses, err := hostdata.Pools(&s.template.Spec, s.subject())
	errs := []error{err}
	for _, use := range uses {
		if _, err := r.startWatch(ctx, apiOf(use.Pool)); !meta.IsNoMatchError(err) {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		ctrl.LoggerFrom(ctx).V(1).Info("Not all claims of the addresses are watched", "reason", err.Error())
	}
}

// releaseAbandoned releases the addresses of a Metal3Data that does not exist. The garbage collector deletes their
// claims, which only the finalizer of this controller keeps. CAPM3 leaves such claims of pools that annotations name. A
// Metal3Data whose finalizers are removed by force leaves them too.
func (r *Reconciler) releaseAbandoned(ctx context.Context, data client.ObjectKey) error {
	for _, through := range apis() {
		if !r.isListed(through) {
			continue
		}
		err := r.each(ctx, through, data, ofName(data.Name), func(claim client.Object) error {
			isAbandoned, err := r.isAbandoned(ctx, claim, data)
			if err != nil || !isAbandoned {
				return err
			}
			return r.delete(ctx, claim)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// isAbandoned returns true for a claim that is being deleted, and whose Metal3Data does not exist. It reads the data
// live. A claim that a move deletes, or whose Cluster is paused, is not abandoned.
func (r *Reconciler) isAbandoned(ctx context.Context, claim client.Object, data client.ObjectKey) (bool, error) {
	if claim.GetDeletionTimestamp().IsZero() || infrav1.IsLeaving(claim) ||
		!controllerutil.ContainsFinalizer(claim, infrav1.DataFinalizer) ||
		r.WatchFilter != "" && !labels.HasWatchLabel(claim, r.WatchFilter) {
		return false, nil
	}
	pause, err := flow.PausedWithCluster(ctx, r.Client, claim)
	if err != nil || pause != "" {
		return false, err
	}
	existing, err := flow.Find[infrav1.Metal3Data](ctx, r.Live, data)
	return err == nil && existing == nil, err
}
