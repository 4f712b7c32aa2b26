package metal3cluster

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

func waitForCluster(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.cluster != nil {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.WaitingForClusterReason,
		"Waiting for Cluster API to set the ownerReference of a Cluster"), nil
}

// findEndpoint finds the control-plane endpoint of the Metal3Cluster, or else that of the Cluster.
func findEndpoint(ctx context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.infra.Spec.ControlPlaneEndpoint.IsValid():
		s.endpoint = s.infra.Spec.ControlPlaneEndpoint
	case s.cluster.Spec.ControlPlaneEndpoint.IsValid():
		s.endpoint = s.cluster.Spec.ControlPlaneEndpoint
	default:
		return outcome.Blocked(infrav1.EndpointMissingReason, fmt.Sprintf(
			"Set spec.controlPlaneEndpoint.host and port of Metal3Cluster %s or of Cluster %s",
			s.infra.Name, s.cluster.Name)), nil
	}
	// The finalizer is stored before the object is provisioned, so that its deletion waits for the Machines.
	if err := s.pass.Save(ctx); err != nil {
		return outcome.Done(), err
	}
	s.infra.Status.Initialization.Provisioned = ptr.To(true)
	return outcome.Done(), nil
}

// endpointFound returns the message of the condition for a cluster with a control-plane endpoint.
func endpointFound(s *scope) flow.Reached {
	if len(s.sharers) == 0 {
		return flow.Reached{Reason: infrav1.InfrastructureReadyReason, Message: disagreement(s)}
	}
	return flow.Reached{Reason: infrav1.EndpointSharedReason, Message: fmt.Sprintf(
		"Control-plane endpoint %s is also that of Metal3Cluster %s. Correct spec.controlPlaneEndpoint of one of them, "+
			"or of its Cluster.",
		s.endpoint.String(), strings.Join(s.sharers, ", "))}
}

// disagreement returns a message if Cluster and Metal3Cluster name different endpoints: Cluster API keeps that of the
// Cluster.
func disagreement(s *scope) string {
	if s.cluster == nil {
		return ""
	}
	used := s.cluster.Spec.ControlPlaneEndpoint
	if !used.IsValid() || used == s.endpoint {
		return ""
	}
	return fmt.Sprintf("Cluster %s uses control-plane endpoint %s, not %s of the Metal3Cluster",
		s.cluster.Name, used.String(), s.endpoint.String())
}

// endpointIndex finds Metal3Clusters and Clusters by spec.controlPlaneEndpoint.
const endpointIndex = "spec.controlPlaneEndpoint"

// byEndpoint returns the control-plane endpoint in the spec of a Metal3Cluster or a Cluster, or nothing without one.
func byEndpoint(object client.Object) []string {
	var endpoint clusterv1.APIEndpoint
	switch object := object.(type) {
	case *infrav1.Metal3Cluster:
		endpoint = object.Spec.ControlPlaneEndpoint
	case *clusterv1.Cluster:
		endpoint = object.Spec.ControlPlaneEndpoint
	}
	if !endpoint.IsValid() {
		return nil
	}
	return []string{endpoint.String()}
}

// endpointMatters returns true for changes that begin or end a conflict about a control-plane endpoint.
func endpointMatters[T client.Object](before, after T) bool {
	return !slices.Equal(byEndpoint(before), byEndpoint(after)) ||
		before.GetDeletionTimestamp().IsZero() != after.GetDeletionTimestamp().IsZero()
}

// sameEndpoint requeues the Metal3Clusters with the control-plane endpoint of a Metal3Cluster or a Cluster. It runs for
// the old and the new object of an update.
func (r *Reconciler) sameEndpoint(ctx context.Context, object client.Object) []ctrl.Request {
	var requests []ctrl.Request
	for _, endpoint := range byEndpoint(object) {
		for _, infra := range r.withEndpoint(ctx, endpoint) {
			requests = append(requests, ctrl.Request{NamespacedName: infra})
		}
	}
	return requests
}

// readSharers finds the other Metal3Clusters with the control-plane endpoint of the Metal3Cluster or of its Cluster, in
// all namespaces, which share a network. The cache has only the Clusters of the namespaces of the manager.
func (r *Reconciler) readSharers(ctx context.Context, s *scope) error {
	endpoints := byEndpoint(s.infra)
	if len(endpoints) == 0 && s.cluster != nil {
		endpoints = byEndpoint(s.cluster)
	}
	if len(endpoints) == 0 || !s.infra.DeletionTimestamp.IsZero() {
		return nil
	}
	for _, other := range r.withEndpoint(ctx, endpoints[0]) {
		if other != client.ObjectKeyFromObject(s.infra) && !slices.Contains(s.sharers, other.String()) {
			s.sharers = append(s.sharers, other.String())
		}
	}
	slices.Sort(s.sharers)
	return nil
}

// withEndpoint returns the Metal3Clusters with a control-plane endpoint in their spec or in that of their Cluster. Some
// occur twice. It reads the cache, which fails only while the manager stops.
func (r *Reconciler) withEndpoint(ctx context.Context, endpoint string) []client.ObjectKey {
	var found []client.ObjectKey
	var infras infrav1.Metal3ClusterList
	var clusters clusterv1.ClusterList
	for _, list := range []client.ObjectList{&infras, &clusters} {
		sharing := client.MatchingFields{endpointIndex: endpoint}
		if err := r.Client.List(ctx, list, sharing, client.UnsafeDisableDeepCopy); err != nil {
			return nil
		}
	}
	for i := range infras.Items {
		if infras.Items[i].DeletionTimestamp.IsZero() {
			found = append(found, client.ObjectKeyFromObject(&infras.Items[i]))
		}
	}
	for i := range clusters.Items {
		cluster := &clusters.Items[i]
		reference := cluster.Spec.InfrastructureRef
		if cluster.DeletionTimestamp.IsZero() && reference.Kind == "Metal3Cluster" &&
			reference.APIGroup == infrav1.GroupVersion.Group {
			found = append(found, client.ObjectKey{Namespace: cluster.Namespace, Name: reference.Name})
		}
	}
	return found
}
