package hoststore

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Neighbours returns the Clusters of a namespace with a Metal3Cluster, sorted by name. The Metal3Clusters of other
// namespaces with an Ironic endpoint follow. An empty namespace means all namespaces. It reads the cache.
func (s *Store) Neighbours(ctx context.Context, namespace string) ([]pivot.Neighbour, error) {
	var clusters clusterv1.ClusterList
	if err := s.client.List(ctx, &clusters, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Clusters: %w", err)
	}
	var list infrav1.Metal3ClusterList
	if err := s.client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Metal3Clusters: %w", err)
	}
	return NeighboursOf(namespace, clusters.Items, list.Items), nil
}

// NeighboursOf is Neighbours of the Clusters of the namespace and of all Metal3Clusters.
func NeighboursOf(namespace string, clusters []clusterv1.Cluster, all []infrav1.Metal3Cluster) []pivot.Neighbour {
	infras := make(map[string]*infrav1.Metal3Cluster, len(all))
	var elsewhere []pivot.Neighbour
	for i := range all {
		infra := &all[i]
		switch {
		case namespace == "" || infra.Namespace == namespace:
			infras[infra.Name] = infra
		case infra.Spec.Ironic != nil:
			elsewhere = append(elsewhere, pivot.NeighbourElsewhere(infra))
		}
	}
	var around []pivot.Neighbour
	for i := range clusters {
		cluster := &clusters[i]
		if cluster.Spec.InfrastructureRef.Kind == "Metal3Cluster" {
			around = append(around, pivot.NeighbourOf(cluster, infras[cluster.Spec.InfrastructureRef.Name]))
		}
	}
	// The cache returns them in any order, and the caller uses the first one with a VIP holder.
	slices.SortFunc(around, func(a, b pivot.Neighbour) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(elsewhere, func(a, b pivot.Neighbour) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return append(around, elsewhere...)
}
