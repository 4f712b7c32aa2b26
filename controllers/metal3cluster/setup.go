package metal3cluster

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

const (
	// gatherAtLeast is the delay that merges changes of other objects into one reconcile of a Metal3Cluster. gatherAtGate
	// applies while clusterctl waits: clusterctl reads block-move after 5 and 12.5 seconds, so the delay must be short.
	gatherAtLeast = time.Second
	gatherAtGate  = 200 * time.Millisecond

	// gatherPerHost, and gatherPerHostAtGate while clusterctl waits, are added for each host of the namespace. A reconcile
	// reads all hosts, in about 20 microseconds each. Without the addition, the work grows with the square of their
	// number while all hosts are provisioned. With gatherPerHost it takes a hundredth of a processor.
	gatherPerHost       = 2 * time.Millisecond
	gatherPerHostAtGate = time.Millisecond
)

// gatherTime returns the delay that merges changes for a Metal3Cluster.
func (r *Reconciler) gatherTime(cluster types.NamespacedName) time.Duration {
	if known, found := r.gatherTimes.Load(cluster); found {
		gather, _ := known.(time.Duration)
		return gather
	}
	return gatherAtLeast
}

func (s *scope) gatherTime() time.Duration {
	hosts := time.Duration(len(s.move.Hosts))
	if s.waitsAtGate() {
		return gatherAtGate + hosts*gatherPerHostAtGate
	}
	return gatherAtLeast + hosts*gatherPerHost
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager, options controller.Options) error {
	for _, object := range []client.Object{&infrav1.Metal3Cluster{}, &clusterv1.Cluster{}} {
		if err := mgr.GetFieldIndexer().IndexField(ctx, object, endpointIndex, byEndpoint); err != nil {
			return fmt.Errorf("indexing %T by control-plane endpoint: %w", object, err)
		}
	}
	kind := infrav1.GroupVersion.WithKind("Metal3Cluster")
	toInfrastructure := util.ClusterToInfrastructureMapFunc(ctx, kind, mgr.GetClient(), &infrav1.Metal3Cluster{})
	err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Cluster{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		Watches(&clusterv1.Cluster{}, flow.Map(toInfrastructure),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Cluster{}, r.later(), builder.WithPredicates(flow.Updates(clusterMatters))).
		WatchesMetadata(&clusterv1.ClusterClass{}, r.later(),
			builder.WithPredicates(predicate.AnnotationChangedPredicate{})).
		Watches(&infrav1.Metal3Cluster{}, flow.Map(r.sameEndpoint),
			builder.WithPredicates(flow.Updates(endpointMatters[*infrav1.Metal3Cluster]))).
		Watches(&clusterv1.Cluster{}, flow.Map(r.sameEndpoint),
			builder.WithPredicates(flow.Updates(endpointMatters[*clusterv1.Cluster]))).
		Watches(&clusterv1.Machine{}, flow.Map(r.machineToInfrastructure), builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&clusterv1.Machine{}, r.later(), builder.WithPredicates(flow.Updates(nodeMatters))).
		Watches(&bmov1alpha1.BareMetalHost{}, r.later(), builder.WithPredicates(flow.Updates(hostMatters))).
		Watches(&infrav1.Metal3Machine{}, r.later(), builder.WithPredicates(flow.Updates(consumerMatters))).
		WatchesMetadata(&clusterv1.MachineSet{}, r.later(), builder.WithPredicates(flow.ComesOrLeaves())).
		WatchesMetadata(&clusterv1.MachineDeployment{}, r.later(), builder.WithPredicates(flow.ComesOrLeaves())).
		Watches(&infrav1.Metal3Remediation{}, r.later(), builder.WithPredicates(flow.Updates(finalizersMatter))).
		Watches(&infrav1.Metal3Cluster{}, r.conflicting(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Secret{}, handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(),
			&infrav1.Metal3Cluster{})).
		WatchesMetadata(&apiextensionsv1.CustomResourceDefinition{}, r.everywhere(),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Endpoints.events, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.Nodes.events, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3Cluster controller: %w", err)
	}
	for _, prober := range []manager.Runnable{r.Endpoints, r.Nodes} {
		if err := mgr.Add(prober); err != nil {
			return fmt.Errorf("setting up the probers of Metal3Clusters: %w", err)
		}
	}
	return nil
}

// nodeMatters returns true for Machines that are deleted or get their Node.
func nodeMatters(before, after *clusterv1.Machine) bool {
	return before.Status.NodeRef.IsDefined() != after.Status.NodeRef.IsDefined() ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero()
}

// consumerMatters returns true for Metal3Machines that are deleted, get an owner, or lose their host.
func consumerMatters(before, after *infrav1.Metal3Machine) bool {
	return pivot.LostHost(before) != pivot.LostHost(after) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// finalizersMatter returns true for an update by which a Metal3Remediation begins or ends.
func finalizersMatter(before, after *infrav1.Metal3Remediation) bool {
	return len(before.Finalizers) != len(after.Finalizers)
}

// hostMatters returns true for changes of a host that affect whether it can be moved.
func hostMatters(before, after *bmov1alpha1.BareMetalHost) bool {
	return before.Generation != after.Generation || pivot.Delays(before) != pivot.Delays(after) ||
		pivot.Parked(before) != pivot.Parked(after) || pivot.EpochOf(before) != pivot.EpochOf(after) ||
		before.Annotations[infrav1.BlockMoveAnnotation] != after.Annotations[infrav1.BlockMoveAnnotation] ||
		before.Annotations[infrav1.IronicClusterIDAnnotation] != after.Annotations[infrav1.IronicClusterIDAnnotation] ||
		before.Annotations[bmov1alpha1.PausedAnnotation] != after.Annotations[bmov1alpha1.PausedAnnotation] ||
		pivot.ClusterOf(before) != pivot.ClusterOf(after) || host.Withheld(before) != host.Withheld(after) ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// later enqueues all Metal3Clusters of the namespace of an object, after gatherTime.
func (r *Reconciler) later() handler.Funcs {
	return flow.Gather(r.gatherTime, func(ctx context.Context, changed client.Object) []ctrl.Request {
		return flow.Requests(ctx, r.Client, &infrav1.Metal3ClusterList{}, client.InNamespace(changed.GetNamespace()))
	})
}

// everywhere enqueues all Metal3Clusters, after gatherTime.
func (r *Reconciler) everywhere() handler.Funcs {
	return flow.Gather(r.gatherTime, func(ctx context.Context, _ client.Object) []ctrl.Request {
		return flow.Requests(ctx, r.Client, &infrav1.Metal3ClusterList{})
	})
}

// conflicting enqueues the Metal3Clusters that a Metal3Cluster may conflict with: all others with an Ironic endpoint,
// in all namespaces, because namespaces share networks.
func (r *Reconciler) conflicting() handler.Funcs {
	return flow.Gather(r.gatherTime, func(ctx context.Context, changed client.Object) []ctrl.Request {
		return flow.RequestsIf(ctx, r.Client, &infrav1.Metal3ClusterList{}, func(other *infrav1.Metal3Cluster) bool {
			return other.Spec.Ironic != nil && client.ObjectKeyFromObject(other) != client.ObjectKeyFromObject(changed)
		})
	})
}

// machineToInfrastructure requeues the Metal3Cluster of a Machine if the Metal3Cluster is being deleted, because it
// waits for the last Machine. The watch with later requeues any other Metal3Cluster.
func (r *Reconciler) machineToInfrastructure(ctx context.Context, machine *clusterv1.Machine) []ctrl.Request {
	isDeleting := func(infra *infrav1.Metal3Cluster) bool { return !infra.DeletionTimestamp.IsZero() }
	return flow.RequestsIf(ctx, r.Client, &infrav1.Metal3ClusterList{}, isDeleting,
		client.InNamespace(machine.Namespace), client.MatchingLabels{clusterv1.ClusterNameLabel: machine.Spec.ClusterName})
}
