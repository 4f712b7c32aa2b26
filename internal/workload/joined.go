package workload

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Joined says whether a node has joined a cluster from a host since a time, from the cache. A node counts that carries
// the UID of the host, or its host name and the UID of no other host. ErrUnreachable means that there is no connection.
//
// The machine of the node may not know it yet: a machine is connected with its node only when its host is done.
func (n *Nodes) Joined(
	ctx context.Context, cluster types.NamespacedName, query Query, since time.Time,
) (bool, error) {
	facts, err := n.Find(ctx, cluster, query)
	if err != nil {
		return false, err
	}
	for _, node := range slices.Concat(facts.ByHostUID, facts.ByHostname) {
		if (node.HostUID == "" || node.HostUID == query.HostUID) && !node.Created.Before(since) {
			return true, nil
		}
	}
	return false, nil
}
