package metal3cluster

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/annotations"
	"sigs.k8s.io/cluster-api/util/labels"
	"sigs.k8s.io/cluster-api/util/predicates"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
)

// Secrets keeps the credentials and certificates of an Ironic endpoint.
type Secrets interface {
	Ensure(ctx context.Context, owner *infrav1.Metal3Cluster, cluster string) (secrets.Material, outcome.Outcome, error)
}

// Reconciler reconciles Metal3Clusters.
type Reconciler struct {
	Client   client.Client
	Recorder events.EventRecorder

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that an object must carry. Empty means any.
	WatchFilter string

	// Secrets keeps credentials and certificates of Ironic endpoints.
	Secrets Secrets

	// Endpoints looks at Ironic endpoints.
	Endpoints *Lookout

	// Interval is how often an Ironic endpoint is looked at.
	Interval time.Duration

	memory flow.Memory
}

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3clusters/status,verbs=patch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=clusters;machines,verbs=get;list;watch
// +kubebuilder:rbac:groups=metal3.io,resources=baremetalhosts,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;create;patch

// Reconcile moves one Metal3Cluster towards what its spec wants.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	infra := &infrav1.Metal3Cluster{}
	if err := r.Client.Get(ctx, req.NamespacedName, infra); err != nil {
		r.memory.Forget(req.NamespacedName)
		r.Endpoints.Forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if r.ignores(infra) {
		return ctrl.Result{}, nil
	}
	if r.memory.Behind(infra) {
		return ctrl.Result{RequeueAfter: flow.CatchUp}, nil
	}
	reporter := flow.Reporter{Client: r.Client, Recorder: r.Recorder, Announce: announce(), Memory: &r.memory}
	pass, err := reporter.Begin(infra)
	if err != nil {
		return ctrl.Result{}, err
	}
	s := &scope{infra: infra, pass: pass, holder: holderOf(infra), reached: map[string]outcome.Outcome{}}
	if err := flow.Observe(ctx, s, r.readCluster, r.readMachines, r.readControlPlane, r.readHosts); err != nil {
		// Nothing is reported: what was not read would look as if it were not there.
		return ctrl.Result{}, err
	}
	reached, err := flow.Act(ctx, s, r.route(s)...)
	result, err := pass.End(ctx, r.again(s, reached), err, func() { setStatus(s) })
	if err == nil {
		r.announceHolder(s)
	}
	return result, err
}

// ignores says whether the object belongs to somebody else: an external system, another manager, or a running move.
func (r *Reconciler) ignores(infra *infrav1.Metal3Cluster) bool {
	return flow.Moving(infra) || annotations.IsExternallyManaged(infra) ||
		(r.WatchFilter != "" && !labels.HasWatchLabel(infra, r.WatchFilter))
}

// route lists the phases of a reconcile.
func (r *Reconciler) route(s *scope) []flow.Phase[*scope] {
	switch {
	case s.paused:
		return nil
	case !s.infra.DeletionTimestamp.IsZero():
		return []flow.Phase[*scope]{waitForMachines, dropFinalizer}
	default:
		return []flow.Phase[*scope]{
			waitForCluster, keepFinalizer, chooseClusterID, findEndpoint, r.keepSecret, r.lookAtIronic,
		}
	}
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	log := ctrl.LoggerFrom(ctx)
	kind := infrav1.GroupVersion.WithKind("Metal3Cluster")
	toInfrastructure := util.ClusterToInfrastructureMapFunc(ctx, kind, mgr.GetClient(), &infrav1.Metal3Cluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Cluster{}, builder.WithPredicates(flow.NotOnlyStatus(),
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		WithOptions(options).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(toInfrastructure),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.machineToInfrastructure),
			builder.WithPredicates(onlyDeletes())).
		WatchesRawSource(source.Channel(r.Endpoints.news, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3Cluster controller: %w", err)
	}
	return nil
}

// onlyDeletes lets through the only event of a Machine that a Metal3Cluster waits for: its end.
func onlyDeletes() predicate.Funcs {
	return predicate.Funcs{
		CreateFunc:  func(event.CreateEvent) bool { return false },
		UpdateFunc:  func(event.UpdateEvent) bool { return false },
		GenericFunc: func(event.GenericEvent) bool { return false },
	}
}

func (r *Reconciler) machineToInfrastructure(ctx context.Context, object client.Object) []ctrl.Request {
	machine, isMachine := object.(*clusterv1.Machine)
	if !isMachine {
		return nil
	}
	var list infrav1.Metal3ClusterList
	if err := r.Client.List(ctx, &list, client.InNamespace(machine.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName}); err != nil {
		return nil
	}
	requests := make([]ctrl.Request, 0, len(list.Items))
	for i := range list.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
	}
	return requests
}
