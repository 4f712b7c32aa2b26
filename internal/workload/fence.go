package workload

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read returns a whole node with a live read. It returns nil if the node does not exist.
func (n *Nodes) Read(ctx context.Context, cluster types.NamespacedName, name string) (*corev1.Node, error) {
	reader, err := n.clusters.GetUncachedClient(ctx, cluster)
	if err != nil {
		return nil, unreachable(err)
	}
	node := &corev1.Node{}
	if err := reader.Get(ctx, client.ObjectKey{Name: name}, node); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Node %s of cluster %s: %w", name, cluster, err)
	} else if err != nil {
		return nil, nil
	}
	return node, nil
}

// Write patches the current node to the desired metadata and spec. It writes nothing if they are equal. It returns a
// conflict if the node has changed since the current copy was read.
func (n *Nodes) Write(ctx context.Context, cluster types.NamespacedName, current, desired *corev1.Node) error {
	patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
	if changes, err := client.MergeFrom(current).Data(desired); err != nil || string(changes) == "{}" {
		return err
	}
	writer, err := n.clusters.GetUncachedClient(ctx, cluster)
	if err != nil {
		return unreachable(err)
	}
	if err := writer.Patch(ctx, desired.DeepCopy(), patch); err != nil {
		return fmt.Errorf("writing Node %s of cluster %s: %w", current.Name, cluster, err)
	}
	return nil
}

// Delete deletes a node by name and UID. It returns no error if the node does not exist.
func (n *Nodes) Delete(ctx context.Context, cluster types.NamespacedName, node *corev1.Node) error {
	writer, err := n.clusters.GetUncachedClient(ctx, cluster)
	if err != nil {
		return unreachable(err)
	}
	err = writer.Delete(ctx, node, client.Preconditions{UID: &node.UID})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting Node %s of cluster %s: %w", node.Name, cluster, err)
	}
	return nil
}

// Pods returns the pods on a node with a live read.
func (n *Nodes) Pods(ctx context.Context, cluster types.NamespacedName, node string) ([]corev1.Pod, error) {
	reader, err := n.clusters.GetUncachedClient(ctx, cluster)
	if err != nil {
		return nil, unreachable(err)
	}
	var pods corev1.PodList
	if err := reader.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("listing the pods on Node %s of cluster %s: %w", node, cluster, err)
	}
	return pods.Items, nil
}

// Version returns the version of the API server of a cluster, such as v1.36.3.
func (n *Nodes) Version(ctx context.Context, cluster types.NamespacedName) (string, error) {
	config, err := n.clusters.GetRESTConfig(ctx, cluster)
	if err != nil {
		return "", unreachable(err)
	}
	server, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return "", fmt.Errorf("reading the version of cluster %s: %w", cluster, err)
	}
	version, err := server.ServerVersion()
	if err != nil {
		return "", fmt.Errorf("reading the version of cluster %s: %w", cluster, err)
	}
	return version.GitVersion, nil
}
