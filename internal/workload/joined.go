package workload

import (
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Joined returns true if a node of a host has joined the cluster since a time. The node must have the UID of the host,
// or its host name and no UID. The Metal3Machine need not be linked with the node yet. Joined reads the cache and
// returns ErrUnreachable without a connection.
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
