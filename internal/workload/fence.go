package workload

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read returns a whole node with a live read. It returns nil if the node does not exist.
func (n *Nodes) Read(ctx context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error) {
	var found *corev1.Node
	err := n.live(ctx, cluster, func(ctx context.Context, c client.Client) error {
		node := &corev1.Node{}
		err := c.Get(ctx, client.ObjectKey{Name: name}, node)
		if err == nil {
			found = node
		}
		return wrap(client.IgnoreNotFound(err), "reading Node %s of cluster %s", name, cluster)
	})
	return found, err
}

// Write patches the current node to the desired metadata and spec. It writes nothing if they are equal. It returns a
// conflict if the node has changed since the current copy was read.
func (n *Nodes) Write(ctx context.Context, cluster types.NamespacedName, current, desired *corev1.Node) error {
	patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
	if changes, err := client.MergeFrom(current).Data(desired); err != nil || string(changes) == "{}" {
		return err
	}
	return n.write(ctx, cluster, func(ctx context.Context, c client.Client) error {
		return wrap(c.Patch(ctx, desired.DeepCopy(), patch), "writing Node %s of cluster %s", current.Name, cluster)
	})
}

// Delete deletes a node by name and UID. It returns no error if the node does not exist.
func (n *Nodes) Delete(ctx context.Context, cluster types.NamespacedName, node *corev1.Node) error {
	return n.write(ctx, cluster, func(ctx context.Context, c client.Client) error {
		err := client.IgnoreNotFound(c.Delete(ctx, node, client.Preconditions{UID: &node.UID}))
		return wrap(err, "deleting Node %s of cluster %s", node.Name, cluster)
	})
}

// Pods returns the pods on a node with a live read.
func (n *Nodes) Pods(ctx context.Context, cluster types.NamespacedName, node string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := n.live(ctx, cluster, func(ctx context.Context, c client.Client) error {
		err := c.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node})
		return wrap(err, "listing the pods on Node %s of cluster %s", node, cluster)
	})
	return pods.Items, err
}

// Version returns the version of the API server of a cluster, such as v1.36.3.
func (n *Nodes) Version(ctx context.Context, cluster types.NamespacedName) (string, error) {
	var found version.Info
	send := func(ctx context.Context, config *rest.Config) error {
		server, err := discovery.NewDiscoveryClientForConfig(config)
		if err != nil {
			return wrap(err, "reading the version of cluster %s", cluster)
		}
		content, err := server.RESTClient().Get().AbsPath("/version").Do(ctx).Raw()
		if err == nil {
			err = json.Unmarshal(content, &found)
		}
		return wrap(err, "reading the version of cluster %s", cluster)
	}
	err := bounded(ctx, &n.breaker, target{cluster, liveRead}, n.clusters.GetRESTConfig, send)
	return found.GitVersion, err
}

// wrap adds what failed to an error. Nil stays nil.
func wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), err)
}
