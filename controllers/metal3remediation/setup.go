package metal3remediation

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// machineIndex finds Metal3Remediations by the name of their Machine.
const machineIndex = "machine"

func byMachine(request client.Object) []string {
	if machine := remediation.MachineOf(request); machine != "" {
		return []string{machine}
	}
	return nil
}

// SetupWithManager registers the controller. The ClusterCache delivers the connections to workload clusters.
func (r *Reconciler) SetupWithManager(
	ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options,
) error {
	err := mgr.GetFieldIndexer().IndexField(ctx, &infrav1.Metal3Remediation{}, machineIndex, byMachine)
	if err != nil {
		return fmt.Errorf("indexing Metal3Remediations by %s: %w", machineIndex, err)
	}
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3RemediationList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3Remediations: %w", err)
	}
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Remediation{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		Watches(&clusterv1.Cluster{}, flow.Map(ofCluster), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Machine{}, flow.MapKey(client.ObjectKeyFromObject, r.ofMachine)).
		Watches(&infrav1.Metal3Machine{}, flow.MapKey(machineOf, r.ofMachine)).
		Watches(&bmov1alpha1.BareMetalHost{}, flow.MapKey(consumerOf, r.ofConsumer)).
		WatchesRawSource(clusters.GetClusterSource("metal3remediation", ofCluster)).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the Metal3Remediation controller: %w", err)
	}
	r.nodeWatch = func(cluster types.NamespacedName) clustercache.Watcher {
		return clustercache.NewWatcher(clustercache.WatcherOptions{
			Name:         "metal3remediation-nodes",
			Watcher:      built,
			Kind:         &corev1.Node{},
			EventHandler: flow.Map(r.ofNode(cluster)),
			Predicates:   []predicate.TypedPredicate[client.Object]{flow.Updates(isNewNode)},
		})
	}
	return nil
}

// isNewNode returns true for an update that shows another Node of the same name. It drops the updates of the kubelet.
func isNewNode(before, after *corev1.Node) bool { return before.UID != after.UID }

// machineOf returns the key of the Machine of a Metal3Machine.
func machineOf(machine client.Object) client.ObjectKey {
	return client.ObjectKey{Namespace: machine.GetNamespace(), Name: remediation.MachineOf(machine)}
}

// consumerOf returns the key of the Metal3Machine of a host.
func consumerOf(object client.Object) client.ObjectKey {
	current, _ := object.(*bmov1alpha1.BareMetalHost)
	machine, _ := host.Consumer(current)
	return client.ObjectKey{Namespace: current.Namespace, Name: machine}
}

func (r *Reconciler) ofConsumer(ctx context.Context, key client.ObjectKey) []ctrl.Request {
	machine := &infrav1.Metal3Machine{}
	if key.Name == "" || r.Client.Get(ctx, key, machine, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	return r.ofMachine(ctx, machineOf(machine))
}

func (r *Reconciler) ofMachine(ctx context.Context, key client.ObjectKey) []ctrl.Request {
	return flow.Requests(ctx, r.Client, &infrav1.Metal3RemediationList{}, client.InNamespace(key.Namespace),
		client.MatchingFields{machineIndex: key.Name})
}

// ofNode returns the remediations of the Machine with a Node. It reads all remediations of the namespace, because Nodes
// come and go rarely.
func (r *Reconciler) ofNode(cluster types.NamespacedName) func(context.Context, *corev1.Node) []ctrl.Request {
	return func(ctx context.Context, node *corev1.Node) []ctrl.Request {
		isOfNode := func(request *infrav1.Metal3Remediation) bool {
			owner := &clusterv1.Machine{}
			key := client.ObjectKey{Namespace: cluster.Namespace, Name: remediation.MachineOf(request)}
			err := r.Client.Get(ctx, key, owner, client.UnsafeDisableDeepCopy)
			return err == nil && owner.Spec.ClusterName == cluster.Name && owner.Status.NodeRef.Name == node.Name
		}
		return flow.RequestsIf(ctx, r.Client, &infrav1.Metal3RemediationList{}, isOfNode,
			client.InNamespace(cluster.Namespace))
	}
}
