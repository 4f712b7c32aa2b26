package workload

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// ControlPlaneRole is the label that kubeadm sets on control-plane nodes.
const ControlPlaneRole = "node-role.kubernetes.io/control-plane"

// ControlPlanes reads and arms the nodes with an Ironic endpoint.
type ControlPlanes struct {
	breaker

	// isWatched is true if reads use the cache.
	isWatched bool

	// own reads the management cluster live, and kubeconfigs as the ClusterCache does.
	own, kubeconfigs client.Reader

	// ownUID is the UID of the namespace kube-system of the management cluster. It is immutable, so it is read once.
	ownMutex sync.Mutex
	ownUID   types.UID

	// kubeconfigMutex protects repaired. Repaired has the clusters whose kubeconfig was invalid, and the last attempt to
	// connect before it was found valid. Zero while it is invalid.
	kubeconfigMutex sync.Mutex
	repaired        map[types.NamespacedName]time.Time
}

// NewControlPlanes returns the control planes of the clusters in a ClusterCache, with live reads. The own reader reads
// the management cluster.
func NewControlPlanes(clusters clustercache.ClusterCache, own client.Reader) *ControlPlanes {
	return &ControlPlanes{breaker: breaker{clusters: clusters}, own: own, kubeconfigs: own}
}

// NewWatchedControlPlanes returns the control planes of the clusters in a ClusterCache, which must hold what Cached
// returns. Reads cost no request while the watches of the cache run. Cached reads the Secrets of the management cluster
// from which the ClusterCache reads kubeconfigs.
func NewWatchedControlPlanes(clusters clustercache.ClusterCache, own, cached client.Reader) *ControlPlanes {
	planes := NewControlPlanes(clusters, own)
	planes.isWatched, planes.kubeconfigs = true, cached
	return planes
}

// read calls read with a cached reader, and again with a live one if the cache cannot be read, for example because the
// kubeconfig does not permit a watch. It returns ErrUnreachable without a connection.
func (c *ControlPlanes) read(
	ctx context.Context, cluster types.NamespacedName, read func(context.Context, client.Reader) error,
) error {
	if c.isWatched {
		health := c.clusters.GetHealthCheckingState(ctx, cluster)
		reader, err := c.clusters.GetReader(ctx, cluster)
		if err != nil {
			return orNotTried(unreachable(err), health)
		}
		cachedCtx, cancel := context.WithTimeout(ctx, requestLimit)
		defer cancel()
		if err := read(cachedCtx, reader); err == nil {
			return nil
		}
	}
	return c.live(ctx, cluster, func(ctx context.Context, live client.Client) error { return read(ctx, live) })
}

// ControlPlane is the observed state of a control plane.
type ControlPlane struct {
	// Own is true if the cluster is the management cluster.
	Own bool

	// Nodes are sorted by name.
	Nodes []ControlPlaneNode
}

// ControlPlaneNode is the observed state of one node.
type ControlPlaneNode struct {
	Name string

	// Armed says whether the node may hold the VIP, and who armed it.
	Armed pivot.Armed

	// Carries is true if the pods of the endpoint run on the node, PodsReady if all of them are ready.
	Carries, PodsReady bool

	// ConfigHash is the hash of the configuration of the pods.
	ConfigHash string
}

// Read reads the nodes of a control plane and the pods of its Ironic endpoint. It returns ErrUnreachable without a
// connection.
func (c *ControlPlanes) Read(
	ctx context.Context, cluster types.NamespacedName, clusterID string,
) (seen ControlPlane, err error) {
	err = c.read(ctx, cluster, func(ctx context.Context, reader client.Reader) error {
		seen, err = c.observe(ctx, reader, cluster, clusterID)
		return err
	})
	return seen, err
}

func (c *ControlPlanes) observe(
	ctx context.Context, reader client.Reader, cluster types.NamespacedName, clusterID string,
) (seen ControlPlane, err error) {
	if seen.Own, err = c.isOwn(ctx, reader); err != nil {
		return ControlPlane{}, err
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.HasLabels{ControlPlaneRole}); err != nil {
		return ControlPlane{}, fmt.Errorf("listing the control-plane nodes of cluster %s: %w", cluster, err)
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.InNamespace(ironic.Namespace),
		client.MatchingLabels{ironic.ClusterLabel: clusterID}); err != nil {
		return ControlPlane{}, fmt.Errorf("listing the Ironic pods of cluster %s: %w", cluster, err)
	}
	for i := range nodes.Items {
		node := ControlPlaneNode{Name: nodes.Items[i].Name, Armed: armed(nodes.Items[i].Annotations)}
		seen.Nodes = append(seen.Nodes, node.with(pods.Items))
	}
	slices.SortFunc(seen.Nodes, func(a, b ControlPlaneNode) int { return cmp.Compare(a.Name, b.Name) })
	return seen, nil
}

func armed(annotations map[string]string) pivot.Armed {
	value, said := annotations[ironic.ArmedAnnotation]
	switch {
	case !said:
		return pivot.NotArmed
	case value != ironic.ArmedValue:
		return pivot.Refused
	case annotations[ironic.ArmedByAnnotation] == ironic.ArmedByProvider:
		return pivot.ArmedByProvider
	default:
		return pivot.ArmedByUser
	}
}

// with adds the state of the pods on the node.
func (n ControlPlaneNode) with(pods []corev1.Pod) ControlPlaneNode {
	ready, keepalived, serving := true, false, false
	for i := range pods {
		if pods[i].Spec.NodeName != n.Name {
			continue
		}
		ready = ready && isReady(&pods[i])
		switch pods[i].Labels[ironic.ComponentLabel] {
		case "vip":
			keepalived = true
		case "ironic":
			serving = true
			n.ConfigHash = pods[i].Annotations[ironic.HashAnnotation]
		}
	}
	n.Carries = keepalived && serving
	n.PodsReady = n.Carries && ready
	return n
}

func isReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// isOwn returns true if a cluster is the management cluster. It compares the UIDs of the namespace kube-system.
func (c *ControlPlanes) isOwn(ctx context.Context, workload client.Reader) (bool, error) {
	there := &corev1.Namespace{}
	key := client.ObjectKey{Name: metav1.NamespaceSystem}
	if err := workload.Get(ctx, key, there); err != nil {
		return false, fmt.Errorf("reading namespace %s of the workload cluster: %w", key.Name, err)
	}
	own, err := c.readOwn(ctx, key)
	return err == nil && there.UID == own, err
}

// readOwn returns the UID of a namespace of the management cluster.
func (c *ControlPlanes) readOwn(ctx context.Context, key client.ObjectKey) (types.UID, error) {
	c.ownMutex.Lock()
	defer c.ownMutex.Unlock()
	if c.ownUID != "" {
		return c.ownUID, nil
	}
	here := &corev1.Namespace{}
	if err := c.own.Get(ctx, key, here); err != nil {
		return "", fmt.Errorf("reading namespace %s: %w", key.Name, err)
	}
	c.ownUID = here.UID
	return c.ownUID, nil
}

// Arm arms a node, so that it may hold the VIP, or disarms it.
func (c *ControlPlanes) Arm(ctx context.Context, cluster types.NamespacedName, node string, armed bool) error {
	// Null removes an annotation.
	annotations := map[string]any{ironic.ArmedAnnotation: nil, ironic.ArmedByAnnotation: nil}
	if armed {
		annotations[ironic.ArmedAnnotation] = ironic.ArmedValue
		annotations[ironic.ArmedByAnnotation] = ironic.ArmedByProvider
	}
	changes := map[string]any{"metadata": map[string]any{"annotations": annotations}}
	return c.patch(ctx, cluster, node, changes, "annotations")
}
