package metal3dataclaim

import (
	"context"
	"fmt"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

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
		Watches(&infrav1.Metal3Data{}, handler.EnqueueRequestsFromMapFunc(dataToClaim),
			builder.WithPredicates(dataMatters())).
		Watches(&infrav1.Metal3DataTemplate{}, handler.EnqueueRequestsFromMapFunc(r.templateToClaims),
			builder.WithPredicates(comesOrLeaves())).
		Watches(&infrav1.Metal3Machine{}, &handler.EnqueueRequestForObject{}, builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicates.ClusterPausedTransitions(mgr.GetScheme(), log))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3DataClaim controller: %w", err)
	}
	return nil
}

func dataToClaim(_ context.Context, object client.Object) []ctrl.Request {
	data, isData := object.(*infrav1.Metal3Data)
	if !isData || data.Spec.Claim == nil {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: data.Namespace, Name: data.Spec.Claim.Name}}}
}

// templateToClaims requeues the claims of a template that have no Metal3Data.
func (r *Reconciler) templateToClaims(ctx context.Context, object client.Object) []ctrl.Request {
	claims, err := r.Data.ClaimsOf(ctx, client.ObjectKeyFromObject(object))
	if err != nil {
		return nil
	}
	var requests []ctrl.Request
	for _, claim := range claims {
		if claim.Status.RenderedData == nil {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(claim)})
		}
	}
	return requests
}

// dataMatters passes Metal3Data that come and go. The first event of one tells of a second answer to a claim.
func dataMatters() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}
}

// comesOrLeaves passes templates that are created, begin to be deleted, or are gone.
func comesOrLeaves() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		return e.ObjectOld.GetUID() != e.ObjectNew.GetUID() ||
			e.ObjectOld.GetDeletionTimestamp().IsZero() != e.ObjectNew.GetDeletionTimestamp().IsZero()
	}}
}
