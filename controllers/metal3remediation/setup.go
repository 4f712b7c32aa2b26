package metal3remediation

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/cluster-api/util"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// minRetryDelay and maxRetryDelay are the times until the retries after the first and after many errors. An error of a
// stage drops the timers of the others, such as the timeout of the try, so a retry must not come much later than they.
const (
	minRetryDelay = 5 * time.Millisecond
	maxRetryDelay = time.Minute
)

func retryLimiter() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](minRetryDelay, maxRetryDelay)
}

// SetupWithManager registers the controller. The ClusterCache delivers the connections to workload clusters.
func (r *Reconciler) SetupWithManager(
	_ context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache, options controller.Options,
) error {
	ofCluster, err := util.ClusterToTypedObjectsMapper(r.Client, &infrav1.Metal3RemediationList{}, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("mapping Clusters to Metal3Remediations: %w", err)
	}
	options.RateLimiter = retryLimiter()
	built, err := ctrl.NewControllerManagedBy(mgr).
		For(&infrav1.Metal3Remediation{}, builder.WithPredicates(flow.NotOnlyStatus())).
		WithOptions(options).
		Watches(&clusterv1.Cluster{}, handler.EnqueueRequestsFromMapFunc(ofCluster),
			builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&clusterv1.Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMachine)).
		Watches(&infrav1.Metal3Machine{}, handler.EnqueueRequestsFromMapFunc(r.ofMetal3Machine)).
		Watches(&bmov1alpha1.BareMetalHost{}, handler.EnqueueRequestsFromMapFunc(r.ofHost)).
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
			EventHandler: handler.EnqueueRequestsFromMapFunc(r.ofNode(cluster)),
			Predicates:   []predicate.TypedPredicate[client.Object]{flow.Updates(isNewNode)},
		})
	}
	return nil
}

// isNewNode returns true for an update that shows another Node of the same name. It drops the updates of the kubelet.
func isNewNode(before, after *corev1.Node) bool { return before.UID != after.UID }

func (r *Reconciler) ofMachine(ctx context.Context, machine client.Object) []ctrl.Request {
	return r.byOwner(ctx, machine.GetNamespace(), func(owner string) bool { return owner == machine.GetName() })
}

func (r *Reconciler) ofMetal3Machine(ctx context.Context, object client.Object) []ctrl.Request {
	return r.byMetal3Machine(ctx, object.GetNamespace(), object.GetName())
}

func (r *Reconciler) ofHost(ctx context.Context, object client.Object) []ctrl.Request {
	current, isHost := object.(*bmov1alpha1.BareMetalHost)
	if !isHost {
		return nil
	}
	machine, consumed := host.Consumer(current)
	if !consumed {
		return nil
	}
	return r.byMetal3Machine(ctx, current.Namespace, machine)
}

func (r *Reconciler) ofNode(cluster types.NamespacedName) handler.MapFunc {
	return func(ctx context.Context, node client.Object) []ctrl.Request {
		return r.byMachine(ctx, cluster.Namespace, func(owner *clusterv1.Machine) bool {
			return owner.Spec.ClusterName == cluster.Name && owner.Status.NodeRef.Name == node.GetName()
		})
	}
}

// byMetal3Machine returns the remediations of the Machine of a Metal3Machine.
func (r *Reconciler) byMetal3Machine(ctx context.Context, namespace, machine string) []ctrl.Request {
	return r.byMachine(ctx, namespace, func(owner *clusterv1.Machine) bool {
		return owner.Spec.InfrastructureRef.Name == machine
	})
}

// byMachine returns the remediations with a matching Machine.
func (r *Reconciler) byMachine(
	ctx context.Context, namespace string, matches func(owner *clusterv1.Machine) bool,
) []ctrl.Request {
	return r.byOwner(ctx, namespace, func(name string) bool {
		owner := &clusterv1.Machine{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, owner)
		return err == nil && matches(owner)
	})
}

// byOwner returns the remediations in a namespace with a matching name of their Machine. It lists all, because
// there are few at a time. The cached read fails only while the manager stops.
func (r *Reconciler) byOwner(ctx context.Context, namespace string, matches func(owner string) bool) []ctrl.Request {
	var list infrav1.Metal3RemediationList
	if err := r.Client.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []ctrl.Request
	for i := range list.Items {
		if name := remediation.MachineOf(&list.Items[i]); name != "" && matches(name) {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
