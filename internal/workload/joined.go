package workload

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Joined says whether a node has joined a cluster from a host since a time, from the cache. A node counts that carries
// the UID of the host, or its host name and the UID of no other host. ErrUnreachable means that there is no connection.
//
// The machine of the node may not know it yet: a machine is connected with its node only when its host is done.
func (n *Nodes) Joined(
	ctx context.Context, cluster types.NamespacedName, query Query, since time.Time,
) (bool, error) {
	reader, err := n.clusters.GetReader(ctx, cluster)
	if err != nil {
		return false, unreachable(err)
	}
	for field, value := range map[string]string{HostUIDIndex.Field: query.HostUID, HostnameIndex.Field: query.Hostname} {
		if value == "" {
			continue
		}
		var nodes corev1.NodeList
		if err := reader.List(ctx, &nodes, client.MatchingFields{field: value}); err != nil {
			return false, fmt.Errorf("listing nodes of cluster %s: %w", cluster, err)
		}
		for _, node := range nodes.Items {
			uid := node.Labels[infrav1.HostUIDLabel]
			if (uid == "" || uid == query.HostUID) && !node.CreationTimestamp.Time.Before(since) {
				return true, nil
			}
		}
	}
	return false, nil
}
