package metal3dataclaim

import (
	"context"
	"fmt"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3DataClaimList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3DataClaims: %w", err)
	}
	log := ctrl.LoggerFrom(ctx)
	err = ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3DataClaim{}, builder.WithPredicates(flow.NotOnlyStatus(),
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		WithOptions(options).
		// The first event of a Metal3Data may show a second Metal3Data of a claim.
		Watches(&infrav1.Metal3Data{}, flow.Map(dataToClaim), builder.WithPredicates(flow.ComesOrGoes())).
		Watches(&infrav1.Metal3DataTemplate{}, flow.Map(r.templateToClaims), builder.WithPredicates(flow.ComesOrLeaves())).
		Watches(&infrav1.Metal3Machine{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&clusterv1.Cluster{}, flow.Map(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3DataClaim controller: %w", err)
	}
	return nil
}

func dataToClaim(_ context.Context, data *infrav1.Metal3Data) []ctrl.Request {
	return flow.Request(data.Namespace, ptr.Deref(data.Spec.Claim, infrav1.Metal3ObjectRef{}).Name)
}

// templateToClaims requeues the claims of a template that have no Metal3Data.
func (r *Reconciler) templateToClaims(ctx context.Context, object client.Object) []ctrl.Request {
	claims, err := r.Data.ClaimsOf(ctx, client.ObjectKeyFromObject(object))
	if err != nil {
		return nil
	}
	return flow.RequestsFor(claims, func(claim *infrav1.Metal3DataClaim) bool { return claim.Status.RenderedData == nil })
}
