// Package handover tells the Ironic of the management cluster, where the provider's own manifests have installed it
// (config/ironic with keepalived), that a cluster is about to be moved away.
//
// An Ironic that was told goes on holding the address while it has it, and does not take it again once it has lost
// it: a management machine that is switched on again after a pivot must not take the address from the cluster. It is
// told through a ConfigMap that its pod mounts, because it may not depend on an API server at that moment.
//
// It is told before the first object is copied. Told later, it would not be told at all if it dies in between, and
// would take the address from a cluster that was completed by hand. The trade-off: a management machine that restarts
// in the middle of a move leaves the address alone until the Cluster is unpaused there.
//
// It does not create the ConfigMap: without it, the cluster runs no such Ironic.
package handover

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// Namespace and Name are where config/ironic puts the ConfigMap. Its keys are the clusterIDs of clusters that were
// handed over.
const (
	Namespace = "metal3-ironic-system"
	Name      = ironic.HandoverConfigMap
)

// Notice writes the ConfigMap. It must be used by one controller only.
type Notice struct {
	client client.Client

	mutex sync.Mutex
	// told is what was written last, by clusterID. What an earlier process wrote is not known.
	told map[string]bool
}

// New returns a notice that is written through a client that does not cache ConfigMaps.
func New(c client.Client) *Notice { return &Notice{client: c, told: map[string]bool{}} }

// Tell says whether a cluster is handed over. It writes only what it has not written before.
func (n *Notice) Tell(ctx context.Context, clusterID string, handedOver bool) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if told, known := n.told[clusterID]; known && told == handedOver {
		return nil
	}
	// Null removes a key.
	data := map[string]any{clusterID: nil}
	if handedOver {
		data[clusterID] = "true"
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("telling Ironic that cluster %s is handed over: %w", clusterID, err)
	}
	notice := &corev1.ConfigMap{}
	notice.Namespace, notice.Name = Namespace, Name
	err = n.client.Patch(ctx, notice, client.RawPatch(types.MergePatchType, patch))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("telling Ironic that cluster %s is handed over: %w", clusterID, err)
	}
	n.told[clusterID] = handedOver
	return nil
}
