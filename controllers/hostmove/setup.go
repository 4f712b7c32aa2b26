package hostmove

import (
	"context"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// SetupWithManager registers the controller.
func (r *Reconciler) SetupWithManager(mgr ctrl.Manager, options controller.Options) error {
	all := flow.Map(r.hostsOfNamespace)
	err := ctrl.NewControllerManagedBy(mgr).
		Named("hostmove").
		For(&bmov1alpha1.BareMetalHost{}, builder.WithPredicates(flow.Updates(hostMatters))).
		WithOptions(options).
		Watches(&clusterv1.Cluster{}, all, builder.WithPredicates(flow.Updates(pauseMatters))).
		Watches(&infrav1.Metal3Cluster{}, all, builder.WithPredicates(flow.Updates(clusterMatters))).
		Complete(r)
	if err != nil {
		return fmt.Errorf("setting up the moves of hosts: %w", err)
	}
	return nil
}

// hostMatters returns true for changes that the next step of a host depends on.
func hostMatters(before, after *bmov1alpha1.BareMetalHost) bool {
	for _, annotation := range []string{
		bmov1alpha1.PausedAnnotation, bmov1alpha1.StatusAnnotation, infrav1.IronicHolderAnnotation,
		infrav1.MoveEpochAnnotation, infrav1.IronicClusterIDAnnotation,
	} {
		if before.Annotations[annotation] != after.Annotations[annotation] {
			return true
		}
	}
	if infrav1.IsLeaving(before) != infrav1.IsLeaving(after) || pivot.ClusterOf(before) != pivot.ClusterOf(after) {
		return true
	}
	_, paused := after.Annotations[bmov1alpha1.PausedAnnotation]
	// A change of the spec may end a refusal of the API server.
	return before.Generation != after.Generation || pivot.Delays(before) != pivot.Delays(after) ||
		pivot.LostStatus(before) != pivot.LostStatus(after) ||
		paused && !equality.Semantic.DeepEqual(before.Status.LastUpdated, after.Status.LastUpdated)
}

// pauseMatters returns true if a Cluster is paused or unpaused. A new Cluster matters as well: the cache may show it
// after its Metal3Cluster.
func pauseMatters(before, after *clusterv1.Cluster) bool {
	return ptr.Deref(before.Spec.Paused, false) != ptr.Deref(after.Spec.Paused, false)
}

// clusterMatters returns true for changes that decide which management cluster may act on hosts.
func clusterMatters(before, after *infrav1.Metal3Cluster) bool {
	return (before.Spec.Ironic == nil) != (after.Spec.Ironic == nil) ||
		pivot.Verified(before) != pivot.Verified(after) || pivot.IsSuperseded(before) != pivot.IsSuperseded(after) ||
		pivot.FencesOthers(before) != pivot.FencesOthers(after) ||
		isGated(before) != isGated(after) || pivot.EpochOf(before) != pivot.EpochOf(after) ||
		!equality.Semantic.DeepEqual(pivot.Holder(before), pivot.Holder(after))
}

// isGated returns true if clusterctl waits for a Metal3Cluster. Hosts are not resumed before it does.
func isGated(infra *infrav1.Metal3Cluster) bool {
	_, gated := infra.Annotations[infrav1.BlockMoveAnnotation]
	return gated
}

// hostsOfNamespace requeues the hosts that may depend on a Cluster or a Metal3Cluster, by name: the order of their
// Nudges. It runs for the old and the new object of an update.
func (r *Reconciler) hostsOfNamespace(ctx context.Context, object client.Object) []ctrl.Request {
	namespace := object.GetNamespace()
	if infra, isInfra := object.(*infrav1.Metal3Cluster); isInfra && infra.Spec.Ironic != nil {
		// Its Ironic may serve hosts of all namespaces.
		namespace = ""
	}
	hosts, err := r.Hosts.Hosts(ctx, namespace)
	if err != nil {
		return nil
	}
	requests := flow.RequestsFor(hosts, func(*bmov1alpha1.BareMetalHost) bool { return true })
	slices.SortFunc(requests, func(a, b ctrl.Request) int { return strings.Compare(a.Name, b.Name) })
	return requests
}
