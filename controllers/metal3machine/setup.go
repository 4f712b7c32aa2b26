package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/secret"
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
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const (
	// providerIDIndex finds Metal3Machines by spec.providerID, including an empty one.
	providerIDIndex = "spec.providerID"

	// bootstrapIndex finds Machines by the name of their bootstrap data Secret.
	bootstrapIndex = "spec.bootstrap.dataSecretName"

	// hostUIDIndex finds hosts by their UID.
	hostUIDIndex = "metadata.uid"

	// hostnameIndex finds hosts by the host name that the inspection found.
	hostnameIndex = "hostname"
)

// Sources are the event sources besides the watches of the manager.
type Sources struct {
	// Offered delivers the machines to which the store offers a host.
	Offered <-chan event.GenericEvent

	// Clusters delivers the connections to workload clusters.
	Clusters clustercache.ClusterCache
}

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, sources Sources, options controller.Options,
) error {
	if err := setupIndexes(ctx, mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("setting up the indexes for Metal3Machines: %w", err)
	}
	clusterToMachines, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3MachineList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3Machines: %w", err)
	}
	kind := infrav1.GroupVersion.WithKind(host.MachineKind)
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Machine{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		Watches(&clusterv1.Machine{}, flow.Map(util.MachineToInfrastructureMapFunc(kind)),
			builder.WithPredicates(flow.Updates(machineMatters))).
		Watches(&clusterv1.Cluster{}, flow.Map(clusterToMachines), builder.WithPredicates(flow.Updates(clusterMatters))).
		Watches(&infrav1.Metal3Cluster{}, flow.Map(r.infrastructureToMachines),
			builder.WithPredicates(flow.Updates(infrastructureMatters))).
		Watches(&bmov1alpha1.BareMetalHost{}, flow.Map(r.hostToMachines)).
		Watches(&bmov1alpha1.BareMetalHost{}, flow.Map(r.sameHostname),
			builder.WithPredicates(flow.Updates(hostnameMatters))).
		Watches(&bmov1alpha1.BareMetalHost{}, flow.Map(r.unlinked), builder.WithPredicates(flow.OnlyDeletes())).
		Watches(&infrav1.Metal3Machine{}, flow.Map(r.sameProviderID),
			builder.WithPredicates(flow.Updates(providerIDMatters))).
		// A machine has the name of its claim, and of the claim of another object that it waits for.
		Watches(&infrav1.Metal3DataClaim{}, &handler.EnqueueRequestForObject{}).
		Watches(&infrav1.Metal3Data{}, flow.Map(dataToMachine)).
		Watches(&corev1.Secret{}, flow.Map(r.secretToMachine)).
		WatchesRawSource(source.Channel(sources.Offered, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(sources.Clusters.GetClusterSource("metal3machine", clusterToMachines)).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3Machine controller: %w", err)
	}
	r.nodeWatch = func(cluster types.NamespacedName) clustercache.Watcher {
		return clustercache.NewWatcher(clustercache.WatcherOptions{
			Name:         "metal3machine-nodes",
			Watcher:      built,
			Kind:         &corev1.Node{},
			EventHandler: flow.Map(r.nodeToMachines(cluster)),
			Predicates:   []predicate.TypedPredicate[client.Object]{flow.Updates(nodeMatters)},
		})
	}
	return nil
}

func setupIndexes(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(
		indexer.IndexField(ctx, &infrav1.Metal3Machine{}, providerIDIndex, byProviderID),
		indexer.IndexField(ctx, &clusterv1.Machine{}, bootstrapIndex, byBootstrapData),
		indexer.IndexField(ctx, &bmov1alpha1.BareMetalHost{}, hostUIDIndex, byUID),
		indexer.IndexField(ctx, &bmov1alpha1.BareMetalHost{}, hostnameIndex, byHostname),
	)
}

func byUID(object client.Object) []string { return []string{string(object.GetUID())} }

func byBootstrapData(object client.Object) []string {
	if machine, ok := object.(*clusterv1.Machine); ok && machine.Spec.Bootstrap.DataSecretName != nil {
		return []string{*machine.Spec.Bootstrap.DataSecretName}
	}
	return nil
}

func byHostname(object client.Object) []string {
	current, ok := object.(*bmov1alpha1.BareMetalHost)
	if !ok {
		return nil
	}
	if hostname := workload.OfHost(current).Hostname; hostname != "" {
		return []string{hostname}
	}
	return nil
}

func byProviderID(object client.Object) []string {
	if machine, ok := object.(*infrav1.Metal3Machine); ok {
		return []string{machine.Spec.ProviderID}
	}
	return nil
}

// machineMatters returns true for changes of the spec, the labels, the owners and the Node of a Machine. It drops the
// conditions that Cluster API copies from the Metal3Machine.
func machineMatters(before, after *clusterv1.Machine) bool {
	return before.UID != after.UID || before.Generation != after.Generation ||
		!maps.Equal(before.Labels, after.Labels) || before.Status.NodeRef != after.Status.NodeRef ||
		!equality.Semantic.DeepEqual(before.OwnerReferences, after.OwnerReferences)
}

// clusterMatters returns true for changes of the infrastructure and the pause of a Cluster.
func clusterMatters(before, after *clusterv1.Cluster) bool {
	return ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false) ||
		before.Spec.InfrastructureRef != after.Spec.InfrastructureRef ||
		ptr.Deref(before.Status.Initialization.InfrastructureProvisioned, false) !=
			ptr.Deref(after.Status.Initialization.InfrastructureProvisioned, false)
}

// infrastructureMatters returns true for changes of the spec, of the pause, of the annotation for the labels of Nodes,
// of the label with the name of the Cluster, and of whether another management cluster manages the Cluster. Cluster API
// sets the label after the creation, and infrastructureToMachines requires it.
func infrastructureMatters(before, after *infrav1.Metal3Cluster) bool {
	const prefixes = infrav1.LabelSyncPrefixesAnnotation
	return before.Generation != after.Generation || before.Annotations[prefixes] != after.Annotations[prefixes] ||
		before.Labels[clusterv1.ClusterNameLabel] != after.Labels[clusterv1.ClusterNameLabel] ||
		flow.Paused(nil, before) != flow.Paused(nil, after) || pivot.IsSuperseded(before) != pivot.IsSuperseded(after)
}

// nodeMatters returns true for changes of the provider ID and the labels of a Node, and if a kubelet begins or stops to
// update a Node without a provider ID. It drops the other status updates of the kubelet.
func nodeMatters(before, after *corev1.Node) bool {
	return before.Spec.ProviderID != after.Spec.ProviderID || !maps.Equal(before.Labels, after.Labels) ||
		after.Spec.ProviderID == "" && workload.Reporting(before) != workload.Reporting(after)
}

// providerIDMatters returns true for changes of the provider ID, which can start or end a conflict.
func providerIDMatters(before, after *infrav1.Metal3Machine) bool {
	return before.Spec.ProviderID != after.Spec.ProviderID
}

// sameProviderID requeues the other machines with the provider ID of a machine. It runs for the old and the new machine
// of an update.
func (r *Reconciler) sameProviderID(ctx context.Context, changed *infrav1.Metal3Machine) []ctrl.Request {
	if changed.Spec.ProviderID == "" {
		return nil
	}
	same := r.machines(ctx, client.InNamespace(changed.Namespace),
		client.MatchingFields{providerIDIndex: changed.Spec.ProviderID})
	return slices.DeleteFunc(same, func(request ctrl.Request) bool {
		return request.NamespacedName == client.ObjectKeyFromObject(changed)
	})
}

// hostToMachines requeues the consumer of a host. For a host without a consumer, it requeues the machines that recorded
// the host, because one of them may have lost it.
func (r *Reconciler) hostToMachines(ctx context.Context, current *bmov1alpha1.BareMetalHost) []ctrl.Request {
	if machine, found := host.Consumer(current); found {
		return flow.Request(current.Namespace, machine)
	}
	return r.machines(ctx, client.InNamespace(current.Namespace),
		client.MatchingFields{hoststore.RecordedHostIndex: current.Name})
}

// hostnameMatters returns true for changes of the host name that BMO found in a host.
func hostnameMatters(before, after *bmov1alpha1.BareMetalHost) bool {
	return !slices.Equal(byHostname(before), byHostname(after))
}

// sameHostname requeues the consumers of the hosts with the host name of a host: they ignore Nodes with this name while
// several hosts have it. It runs for the old and the new host of an update.
func (r *Reconciler) sameHostname(ctx context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, hostname := range byHostname(object) {
		everywhere := types.NamespacedName{Namespace: object.GetNamespace()}
		requests = append(requests, r.consumers(ctx, everywhere, hostnameIndex, hostname)...)
	}
	return requests
}

// unlinked requeues the machines without a provider ID in the namespace of a deleted host: they ignore Nodes with the
// UID of another host.
func (r *Reconciler) unlinked(ctx context.Context, object client.Object) []ctrl.Request {
	return r.machines(ctx, client.InNamespace(object.GetNamespace()), client.MatchingFields{providerIDIndex: ""})
}

// dataToMachine requeues the machine of the Metal3DataClaim, which has the name of the machine.
func dataToMachine(_ context.Context, data *infrav1.Metal3Data) []ctrl.Request {
	return flow.Request(data.Namespace, ptr.Deref(data.Spec.Claim, infrav1.Metal3ObjectRef{}).Name)
}

func (r *Reconciler) infrastructureToMachines(ctx context.Context, object client.Object) []ctrl.Request {
	cluster := object.GetLabels()[clusterv1.ClusterNameLabel]
	if cluster == "" {
		return nil
	}
	return r.machines(ctx, client.InNamespace(object.GetNamespace()),
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
}

// secretToMachine requeues the machine of a bootstrap data Secret. For the Secret of an Ironic endpoint, it requeues
// all machines of the cluster without a provider ID. For a kubeconfig, it requeues all machines of the cluster: those
// that wait for a connection report whether it is valid.
func (r *Reconciler) secretToMachine(ctx context.Context, object client.Object) []ctrl.Request {
	if owner := metav1.GetControllerOf(object); owner != nil && owner.Kind == "Metal3Cluster" {
		return r.machines(ctx, client.InNamespace(object.GetNamespace()),
			client.MatchingLabels{clusterv1.ClusterNameLabel: object.GetLabels()[clusterv1.ClusterNameLabel]},
			client.MatchingFields{providerIDIndex: ""})
	}
	var requests []ctrl.Request
	if cluster, is := strings.CutSuffix(object.GetName(), "-"+string(secret.Kubeconfig)); is {
		requests = r.machines(ctx, client.InNamespace(object.GetNamespace()),
			client.MatchingLabels{clusterv1.ClusterNameLabel: cluster})
	}
	var machines clusterv1.MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(object.GetNamespace()),
		client.MatchingFields{bootstrapIndex: object.GetName()}, client.UnsafeDisableDeepCopy); err != nil {
		return requests
	}
	for _, machine := range machines.Items {
		requests = append(requests, flow.Request(machine.Namespace, machine.Spec.InfrastructureRef.Name)...)
	}
	return requests
}

// nodeToMachines requeues the machines that a Node of a cluster may belong to: the machine in its provider ID, those
// with the same provider ID, which may be of an earlier form, and the consumers of the hosts with its host UID or host
// name.
func (r *Reconciler) nodeToMachines(cluster types.NamespacedName) func(context.Context, *corev1.Node) []ctrl.Request {
	return func(ctx context.Context, node *corev1.Node) []ctrl.Request {
		var requests []ctrl.Request
		if namespace, _, name, ours := host.ParseProviderID(node.Spec.ProviderID); ours && namespace == cluster.Namespace {
			machine := &infrav1.Metal3Machine{}
			key := client.ObjectKey{Namespace: namespace, Name: name}
			if err := r.Client.Get(ctx, key, machine); err == nil && ofCluster(machine, cluster.Name) {
				requests = flow.Request(namespace, name)
			}
		}
		if node.Spec.ProviderID != "" {
			requests = append(requests, r.machines(ctx, client.InNamespace(cluster.Namespace),
				client.MatchingLabels{clusterv1.ClusterNameLabel: cluster.Name},
				client.MatchingFields{providerIDIndex: node.Spec.ProviderID})...)
		}
		for field, value := range map[string]string{
			hostUIDIndex: node.Labels[infrav1.HostUIDLabel], hostnameIndex: node.Labels[corev1.LabelHostname],
		} {
			requests = append(requests, r.consumers(ctx, cluster, field, value)...)
		}
		return requests
	}
}

// consumers returns the consumers of the hosts of a cluster with a value in an index. A cluster without a name stands
// for all clusters of the namespace.
func (r *Reconciler) consumers(ctx context.Context, cluster types.NamespacedName, field, value string) []ctrl.Request {
	if value == "" {
		return nil
	}
	var hosts bmov1alpha1.BareMetalHostList
	if err := r.Client.List(ctx, &hosts, client.InNamespace(cluster.Namespace), client.MatchingFields{field: value},
		client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []ctrl.Request
	for i := range hosts.Items {
		machine, found := host.Consumer(&hosts.Items[i])
		if found && (cluster.Name == "" || ofCluster(&hosts.Items[i], cluster.Name)) {
			requests = append(requests, flow.Request(cluster.Namespace, machine)...)
		}
	}
	return requests
}

func ofCluster(object client.Object, cluster string) bool {
	return object.GetLabels()[clusterv1.ClusterNameLabel] == cluster
}

func (r *Reconciler) machines(ctx context.Context, options ...client.ListOption) []ctrl.Request {
	return flow.Requests(ctx, r.Client, &infrav1.Metal3MachineList{}, options...)
}
