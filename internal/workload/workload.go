// Package workload reads and writes the nodes of workload clusters.
//
// It uses the ClusterCache of Cluster API: one connection and one cache per cluster. Package baremetal/host decides
// which node belongs to which machine. A workload cluster that accepts connections and does not answer blocks few
// workers of a controller: see breaker.
package workload

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// ErrUnreachable is the error while there is no connection to a workload cluster.
var ErrUnreachable = errors.New("the API server of the workload cluster does not answer")

// ErrNotTried is ErrUnreachable before the manager has tried to connect to a workload cluster.
var ErrNotTried = fmt.Errorf("%w: the manager has not tried to connect yet", ErrUnreachable)

// IsUnreachable returns true for the error of a request to a cluster without a connection, and of a request that the
// API server did not answer in time.
func IsUnreachable(err error) bool {
	return errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNoAnswer)
}

// HostUIDIndex finds nodes by the label metal3.io/uuid.
var HostUIDIndex = labelIndex("host-uid", infrav1.HostUIDLabel)

// HostnameIndex finds nodes by their host name.
var HostnameIndex = labelIndex("hostname", corev1.LabelHostname)

// Nodes reads and writes the nodes of workload clusters.
type Nodes struct {
	breaker

	// kubeconfigs reads the Secrets from which the ClusterCache reads kubeconfigs.
	kubeconfigs client.Reader
}

// New returns the nodes of the clusters in a ClusterCache, which must have NodeProviderIDIndex, HostUIDIndex and
// HostnameIndex. Only WaitForAPIServer reads kubeconfigs, which should be a cache.
func New(clusters clustercache.ClusterCache, kubeconfigs client.Reader) *Nodes {
	return &Nodes{breaker{clusters: clusters}, kubeconfigs}
}

// Query selects the nodes of a machine. Empty fields match no node.
type Query struct {
	ProviderID, HostUID, Hostname string

	// OriginUID is the UID that an arrived host had in the source cluster. Only Joined uses it.
	OriginUID string
}

// OfHost returns the query for the nodes of a host, by its UID and its inspected host name.
func OfHost(current *bmov1alpha1.BareMetalHost) Query {
	query := Query{HostUID: string(current.UID), OriginUID: pivot.OriginUID(current)}
	if details := current.Status.HardwareDetails; details != nil {
		query.Hostname = details.Hostname
	}
	return query
}

// Find returns the cached nodes that match the query, without OtherHosts and SharedHostname. It returns ErrUnreachable
// without a connection.
func (n *Nodes) Find(ctx context.Context, cluster types.NamespacedName, query Query) (host.NodeFacts, error) {
	var facts host.NodeFacts
	lookups := []struct {
		field, value string
		result       *[]host.Node
	}{
		{clustercache.NodeProviderIDIndex.Field, query.ProviderID, &facts.ByProviderID},
		{HostUIDIndex.Field, query.HostUID, &facts.ByHostUID},
		{HostnameIndex.Field, query.Hostname, &facts.ByHostname},
	}
	err := n.cached(ctx, cluster, func(ctx context.Context, reader client.Reader) error {
		for _, lookup := range lookups {
			if lookup.value == "" {
				continue
			}
			var nodes corev1.NodeList
			if err := reader.List(ctx, &nodes, client.MatchingFields{lookup.field: lookup.value}); err != nil {
				return fmt.Errorf("listing Nodes of cluster %s: %w", cluster, err)
			}
			for _, node := range nodes.Items {
				*lookup.result = append(*lookup.result, host.Node{
					Name: node.Name, ProviderID: node.Spec.ProviderID, HostUID: node.Labels[infrav1.HostUIDLabel],
					Created: node.CreationTimestamp.Time, Reporting: Reporting(&node),
				})
			}
		}
		return nil
	})
	if err != nil {
		return host.NodeFacts{}, err
	}
	return facts, nil
}

// Joined returns true if a node of a host has joined the cluster since a time. The node must have the UID of the host,
// here or in the source cluster, or its host name and no UID. The Metal3Machine need not be linked with the node yet.
// Joined reads the cache and returns ErrUnreachable without a connection.
func (n *Nodes) Joined(
	ctx context.Context, cluster types.NamespacedName, query Query, since time.Time,
) (bool, error) {
	facts, err := n.Find(ctx, cluster, query)
	if err != nil {
		return false, err
	}
	before, err := n.Find(ctx, cluster, Query{HostUID: query.OriginUID})
	if err != nil {
		return false, err
	}
	uids := []string{"", query.HostUID, query.OriginUID}
	for _, node := range slices.Concat(facts.ByHostUID, before.ByHostUID, facts.ByHostname) {
		if slices.Contains(uids, node.HostUID) && !node.Created.Before(since) {
			return true, nil
		}
	}
	return false, nil
}

// Reporting returns true if the condition Ready of a node is True or False, so that a kubelet updates the node.
func Reporting(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue || condition.Status == corev1.ConditionFalse
		}
	}
	return false
}

// SetProviderID sets the provider ID of a node. It returns an error if the node has another provider ID.
func (n *Nodes) SetProviderID(ctx context.Context, cluster types.NamespacedName, node, providerID string) error {
	changes := map[string]any{"spec": map[string]string{"providerID": providerID}}
	return n.patch(ctx, cluster, node, changes, "provider ID")
}

// NodeLabels are the labels of a node.
type NodeLabels struct {
	// All are the labels of the node.
	All map[string]string

	// OfMachine are the names of the labels that Cluster API copies from the Machine.
	OfMachine []string
}

// Labels returns the cached labels of a node, and false if the node does not exist.
func (n *Nodes) Labels(
	ctx context.Context, cluster types.NamespacedName, name string,
) (labels NodeLabels, found bool, err error) {
	err = n.cached(ctx, cluster, func(ctx context.Context, reader client.Reader) error {
		node := &corev1.Node{}
		err := reader.Get(ctx, client.ObjectKey{Name: name}, node)
		names := strings.Split(node.Annotations[clusterv1.LabelsFromMachineAnnotation], ",")
		labels, found = NodeLabels{All: node.Labels, OfMachine: names}, err == nil
		return wrap(client.IgnoreNotFound(err), "reading Node %s of cluster %s", name, cluster)
	})
	return labels, found, err
}

// SetLabels sets labels of a node. A nil value removes a label.
func (n *Nodes) SetLabels(
	ctx context.Context, cluster types.NamespacedName, node string, changes map[string]*string,
) error {
	return n.patch(ctx, cluster, node, map[string]any{"metadata": map[string]any{"labels": changes}}, "labels")
}

// Watch starts a watch of the nodes of a cluster. Further calls for a cluster have no effect.
func (n *Nodes) Watch(ctx context.Context, cluster types.NamespacedName, watcher clustercache.Watcher) error {
	health := n.clusters.GetHealthCheckingState(ctx, cluster)
	return orNotTried(unreachable(n.clusters.Watch(ctx, cluster, watcher)), health)
}

// WaitForAPIServer returns the outcome of a stage after ErrUnreachable. Its message names a kubeconfig that is missing,
// invalid or expired. Events of the Secret, and of the connection to the cluster, announce its end.
func (n *Nodes) WaitForAPIServer(ctx context.Context, cluster types.NamespacedName) outcome.Outcome {
	waiting := "Waiting for the API server of Cluster " + cluster.Name
	if err := checkKubeconfig(ctx, n.kubeconfigs, cluster, time.Now()); errors.Is(err, ErrNoKubeconfig) {
		return outcome.Waiting(infrav1.WorkloadClusterUnreachableReason, fmt.Sprintf("%s: %v", waiting, err))
	}
	return outcome.Waiting(infrav1.WorkloadClusterUnreachableReason, waiting+" to answer")
}

func unreachable(err error) error {
	if errors.Is(err, clustercache.ErrClusterNotConnected) {
		return ErrUnreachable
	}
	return err
}

// orNotTried returns ErrNotTried for ErrUnreachable, if health is from before the first attempt to connect: the
// ClusterCache counts a failed attempt as a health probe.
func orNotTried(err error, health clustercache.HealthCheckingState) error {
	if errors.Is(err, ErrUnreachable) && health.LastProbeTime.IsZero() {
		return ErrNotTried
	}
	return err
}

func labelIndex(field, label string) clustercache.CacheOptionsIndex {
	return clustercache.CacheOptionsIndex{
		Object: &corev1.Node{},
		Field:  field,
		ExtractValue: func(object client.Object) []string {
			if value := object.GetLabels()[label]; value != "" {
				return []string{value}
			}
			return nil
		},
	}
}
