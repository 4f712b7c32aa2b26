package metal3machine

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
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
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

const (
	// providerIDIndex finds Metal3Machines by spec.providerID.
	providerIDIndex = "spec.providerID"

	// bootstrapIndex finds Machines by the name of their bootstrap data Secret.
	bootstrapIndex = "spec.bootstrap.dataSecretName"

	// hostUIDIndex finds hosts by their UID.
	hostUIDIndex = "metadata.uid"
)

// Sources are the events that do not come from the manager's own watches.
type Sources struct {
	// Woken gives the machines that a free host woke.
	Woken <-chan event.GenericEvent

	// Clusters announces connections to workload clusters.
	Clusters clustercache.ClusterCache
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, sources Sources, options controller.Options,
) error {
	if err := setupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return err
	}
	clusterToMachines, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3MachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3Machines: %w", err)
	}
	log := ctrl.LoggerFrom(ctx)
	kind := infrav1.GroupVersion.WithKind(host.MachineKind)
	owner := handler.EnqueueRequestForOwner(mgr.GetScheme(), mgr.GetRESTMapper(), &infrav1.Metal3Machine{})
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Machine{}, builder.WithPredicates(flow.NotOnlyStatus(),
			predicates.ResourceHasFilterLabel(mgr.GetScheme(), log, r.WatchFilter))).
		WithOptions(options).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(util.MachineToInfrastructureMapFunc(kind))).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(clusterToMachines),
			builder.WithPredicates(clusterMatters())).
		Watches(&infrav1.Metal3Cluster{}, handler.EnqueueRequestsFromMapFunc(r.infrastructureToMachines),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&bmov1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(hostToMachine)).
		Watches(&infrav1.Metal3Machine{}, handler.EnqueueRequestsFromMapFunc(r.sameProviderID),
			builder.WithPredicates(providerIDMatters())).
		Watches(&infrav1.Metal3DataClaim{}, owner).
		Watches(&infrav1.Metal3Data{}, handler.EnqueueRequestsFromMapFunc(dataToMachine)).
		Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.secretToMachine)).
		WatchesRawSource(source.Channel(sources.Woken, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(sources.Clusters.GetClusterSource("metal3machine", clusterToMachines)).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3Machine controller: %w", err)
	}
	r.nodeWatch = clustercache.NewWatcher(clustercache.WatcherOptions{
		Name:         "metal3machine-nodes",
		Watcher:      built,
		Kind:         &corev1.Node{},
		EventHandler: handler.EnqueueRequestsFromMapFunc(r.nodeToMachines),
		Predicates:   []predicate.TypedPredicate[client.Object]{nodeMatters()},
	})
	return nil
}

func setupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &infrav1.Metal3Machine{}, providerIDIndex, byProviderID)
	if err != nil {
		return fmt.Errorf("indexing Metal3Machines by provider ID: %w", err)
	}
	err = indexer.IndexField(ctx, &clusterv1.Machine{}, bootstrapIndex, func(object client.Object) []string {
		if machine, ok := object.(*clusterv1.Machine); ok && machine.Spec.Bootstrap.DataSecretName != nil {
			return []string{*machine.Spec.Bootstrap.DataSecretName}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Machines by bootstrap data: %w", err)
	}
	err = indexer.IndexField(ctx, &bmov1alpha1.BareMetalHost{}, hostUIDIndex, func(object client.Object) []string {
		return []string{string(object.GetUID())}
	})
	if err != nil {
		return fmt.Errorf("indexing hosts by UID: %w", err)
	}
	return nil
}

func byProviderID(object client.Object) []string {
	if machine, ok := object.(*infrav1.Metal3Machine); ok && machine.Spec.ProviderID != "" {
		return []string{machine.Spec.ProviderID}
	}
	return nil
}

// clusterMatters lets through what a machine can wait for: the infrastructure, and the end or beginning of a pause.
func clusterMatters() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isCluster := e.ObjectOld.(*clusterv1.Cluster)
		after, stillCluster := e.ObjectNew.(*clusterv1.Cluster)
		return isCluster && stillCluster &&
			(!equalPointer(before.Spec.Paused, after.Spec.Paused) ||
				before.Spec.InfrastructureRef != after.Spec.InfrastructureRef ||
				!equalPointer(before.Status.Initialization.InfrastructureProvisioned,
					after.Status.Initialization.InfrastructureProvisioned))
	}}
}

func equalPointer(a, b *bool) bool {
	return (a != nil && *a) == (b != nil && *b)
}

// nodeMatters lets through what linking looks at. Nodes report their health every few seconds.
func nodeMatters() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isNode := e.ObjectOld.(*corev1.Node)
		after, stillNode := e.ObjectNew.(*corev1.Node)
		return isNode && stillNode && (before.Spec.ProviderID != after.Spec.ProviderID ||
			before.Labels[infrav1.HostUIDLabel] != after.Labels[infrav1.HostUIDLabel] ||
			before.Labels[corev1.LabelHostname] != after.Labels[corev1.LabelHostname])
	}}
}

// providerIDMatters lets through what begins or ends a conflict about a provider ID.
func providerIDMatters() predicate.Funcs {
	return predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
		before, isMachine := e.ObjectOld.(*infrav1.Metal3Machine)
		after, stillMachine := e.ObjectNew.(*infrav1.Metal3Machine)
		return isMachine && stillMachine && before.Spec.ProviderID != after.Spec.ProviderID
	}}
}

// sameProviderID wakes the other machines with the provider ID of a machine. Of a change it is asked twice: with the
// machine as it was, and as it is.
func (r *Reconciler) sameProviderID(ctx context.Context, object client.Object) []ctrl.Request {
	changed, isMachine := object.(*infrav1.Metal3Machine)
	if !isMachine {
		return nil
	}
	others, err := r.withProviderIDOf(ctx, changed)
	if err != nil {
		return nil
	}
	var requests []ctrl.Request
	for _, other := range others {
		requests = append(requests, ctrl.Request{NamespacedName: other})
	}
	return requests
}

func hostToMachine(_ context.Context, object client.Object) []ctrl.Request {
	current, isHost := object.(*bmov1alpha1.BareMetalHost)
	if !isHost {
		return nil
	}
	machine, found := host.Consumer(current)
	if !found {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: current.Namespace, Name: machine}}}
}

// dataToMachine wakes the machine whose claim the data answers. The claim has the name of its machine.
func dataToMachine(_ context.Context, object client.Object) []ctrl.Request {
	data, isData := object.(*infrav1.Metal3Data)
	if !isData || data.Spec.Claim == nil {
		return nil
	}
	return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: data.Namespace, Name: data.Spec.Claim.Name}}}
}

func (r *Reconciler) infrastructureToMachines(ctx context.Context, object client.Object) []ctrl.Request {
	cluster := object.GetLabels()[clusterv1.ClusterNameLabel]
	if cluster == "" {
		return nil
	}
	return r.machines(ctx, object.GetNamespace(), cluster, func(*infrav1.Metal3Machine) bool { return true })
}

// secretToMachine wakes the machine that waits for the Secret with its bootstrap data, and all machines that may wait
// for the Secret of an Ironic endpoint.
func (r *Reconciler) secretToMachine(ctx context.Context, object client.Object) []ctrl.Request {
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "Metal3Cluster" {
		return r.machines(ctx, object.GetNamespace(), object.GetLabels()[clusterv1.ClusterNameLabel],
			func(machine *infrav1.Metal3Machine) bool { return machine.Spec.ProviderID == "" })
	}
	var machines clusterv1.MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{bootstrapIndex: object.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []ctrl.Request
	for _, machine := range machines.Items {
		requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{
			Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name,
		}})
	}
	return requests
}

// nodeToMachines wakes the machine that a node names, or else all machines of its cluster that have no node yet.
func (r *Reconciler) nodeToMachines(ctx context.Context, object client.Object) []ctrl.Request {
	node, isNode := object.(*corev1.Node)
	if !isNode {
		return nil
	}
	if namespace, _, machine, ours := host.ParseProviderID(node.Spec.ProviderID); ours {
		return []ctrl.Request{{NamespacedName: client.ObjectKey{Namespace: namespace, Name: machine}}}
	}
	return r.machines(ctx, "", "", func(machine *infrav1.Metal3Machine) bool {
		return machine.Status.Initialization.Provisioned == nil && machine.Annotations[infrav1.HostAnnotation] != ""
	})
}

// machines lists requests for the machines of a cluster. An empty namespace and name mean all.
func (r *Reconciler) machines(ctx context.Context, namespace, cluster string, matters func(*infrav1.Metal3Machine) bool,
) []ctrl.Request {
	options := []client.ListOption{client.InNamespace(namespace), client.UnsafeDisableDeepCopy}
	if cluster != "" {
		options = append(options, client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	}
	var machines infrav1.Metal3MachineList
	if err := r.Client.List(ctx, &machines, options...); err != nil {
		return nil
	}
	var requests []ctrl.Request
	for i := range machines.Items {
		if matters(&machines.Items[i]) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&machines.Items[i])})
		}
	}
	return requests
}
