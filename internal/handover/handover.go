// Package handover announces a move to the Ironic of the management cluster, if it was installed from config/ironic
// with keepalived.
//
// After that the management Ironic keeps the VIP while it holds it. If it loses the VIP, it does not reclaim it: a
// management machine that is switched on again after a pivot must not take the VIP from the cluster. The announcement
// is a ConfigMap that the pod of Ironic mounts, because the API server may not answer during a handover.
// The manager writes the ConfigMap before clusterctl copies the first object. Otherwise the management Ironic could
// claim the VIP of a cluster after a crash of the manager, if an administrator then completed the move. A management
// machine that restarts during a move does not claim the VIP until the Cluster is unpaused there.
//
// The package does not create the ConfigMap: without it, the cluster runs no such Ironic.
package handover

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
)

// Namespace and Name identify the ConfigMap of config/ironic. Its keys are the clusterIDs of clusters that were handed
// over.
const (
	Namespace = "metal3-ironic-system"
	Name      = ironic.HandoverConfigMap
)

// Notice writes the ConfigMap. It must be used by one controller only.
type Notice struct {
	client client.Client

	mutex sync.Mutex
	// written holds the last written value by clusterID.
	written map[string]written
}

// written is a value and the time of its write.
type written struct {
	handedOver bool
	at         time.Time
}

// repeatAfter is the time after which Tell writes the same value again. A ConfigMap that was replaced may lack it.
const repeatAfter = 5 * time.Minute

// New returns a notice that writes with a client without a cache for ConfigMaps.
func New(c client.Client) *Notice { return &Notice{client: c, written: map[string]written{}} }

// Tell writes whether a cluster is handed over, unless it wrote the same value in the last minutes. It returns an error
// if the API server refuses the write, and nil if there is no ConfigMap.
func (n *Notice) Tell(ctx context.Context, clusterID string, handedOver bool) error {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	last, known := n.written[clusterID]
	if known && last.handedOver == handedOver && time.Since(last.at) < repeatAfter {
		return nil
	}
	// Null removes a key.
	data := map[string]any{clusterID: nil}
	if handedOver {
		data[clusterID] = "true"
	}
	patch, err := json.Marshal(map[string]any{"data": data})
	if err != nil {
		return fmt.Errorf("writing the handover of cluster %s: %w", clusterID, err)
	}
	notice := &corev1.ConfigMap{}
	notice.Namespace, notice.Name = Namespace, Name
	err = n.client.Patch(ctx, notice, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsNotFound(err):
		// An Ironic that is installed later must get the value.
		delete(n.written, clusterID)
		return nil
	case err != nil:
		return fmt.Errorf("writing the handover of cluster %s: %w", clusterID, err)
	}
	n.written[clusterID] = written{handedOver, time.Now()}
	return nil
}
