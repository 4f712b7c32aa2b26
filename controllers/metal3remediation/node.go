package metal3remediation

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

func (r *Reconciler) fenceNode(ctx context.Context, s *scope) (outcome.Outcome, error) {
	node, err := r.readNode(ctx, s)
	if err != nil || node == nil {
		return outcome.Done(), err
	}
	version, err := r.Clusters.Version(ctx, s.clusterKey())
	if err != nil {
		return outcome.Done(), err
	}
	if remediation.FenceFor(version) == remediation.DeleteFence {
		return outcome.Done(), r.deleteNode(ctx, s, node)
	}
	if err := r.fenceBy(ctx, s, remediation.TaintFence); err != nil {
		return outcome.Done(), err
	}
	if err := r.Nodes.Write(ctx, s.clusterKey(), node, remediation.Tainted(node)); err != nil {
		return outcome.Done(), err
	}
	pods, err := r.Clusters.Pods(ctx, s.clusterKey(), node.Name)
	if err != nil {
		return outcome.Done(), err
	}
	if remaining := remediation.Remaining(node, pods); len(remaining) > 0 {
		return outcome.Waiting(infrav1.FencingNodeReason, fmt.Sprintf("Waiting for pods and volumes to leave Node %s: %s",
			node.Name, outcome.Names(remaining))).WithAfter(pollInterval), nil
	}
	return outcome.Done(), nil
}

// deleteNode records annotations and labels of the Node and deletes it. It omits the annotations of a node that the
// provider armed, because the provider arms the next Node itself.
func (r *Reconciler) deleteNode(ctx context.Context, s *scope, node *corev1.Node) error {
	var without []string
	if node.Annotations[ironic.ArmedByAnnotation] == ironic.ArmedByProvider {
		without = []string{ironic.ArmedAnnotation, ironic.ArmedByAnnotation}
	}
	if err := remediation.Backup(s.request, node, without...); err != nil {
		return err
	}
	if err := r.fenceBy(ctx, s, remediation.DeleteFence); err != nil {
		return err
	}
	return r.Nodes.Delete(ctx, s.clusterKey(), node)
}

// fenceBy records the fence before it exists.
func (r *Reconciler) fenceBy(ctx context.Context, s *scope, fence remediation.Fence) error {
	s.record.Fence = fence
	return s.save(ctx)
}

// readNode returns the Node of the Machine. Nil means none.
func (r *Reconciler) readNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	if !s.owner.Status.NodeRef.IsDefined() {
		return nil, nil
	}
	return r.Nodes.Read(ctx, s.clusterKey(), s.owner.Status.NodeRef.Name)
}

// restore waits for the Node and removes the fence.
func (r *Reconciler) restore(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if !s.owner.Status.NodeRef.IsDefined() {
		return outcome.Waiting(infrav1.WaitingForNodeReason, fmt.Sprintf(
			"status.nodeRef of Machine %s is empty: Cluster API finds no Node with spec.providerID %q. Read the console of "+
				"BareMetalHost %s to see why it does not join, or delete the Machine to replace it.",
			s.owner.Name, s.owner.Spec.ProviderID, s.host.Name)), nil
	}
	node, err := r.watchNode(ctx, s)
	switch {
	case workload.IsUnreachable(err):
		return r.Nodes.WaitForAPIServer(ctx, s.clusterKey()).WithAfter(pollInterval), nil
	case err != nil:
		return outcome.Done(), err
	case node == nil:
		return outcome.Waiting(infrav1.WaitingForNodeReason, fmt.Sprintf(
			"Waiting for Node %s to join again. If it does not, read the console of BareMetalHost %s, or delete Machine %s to "+
				"replace it.", s.owner.Status.NodeRef.Name, s.host.Name, s.owner.Name)), nil
	default:
		return outcome.Done(), r.unfence(ctx, s, node)
	}
}

func (r *Reconciler) watchNode(ctx context.Context, s *scope) (*corev1.Node, error) {
	if err := r.Nodes.Watch(ctx, s.clusterKey(), r.nodeWatch(s.clusterKey())); err != nil {
		return nil, err
	}
	return r.readNode(ctx, s)
}

// withoutFence removes the fence of the Node if its host is on, and returns the outcome. restore, which removes the
// fence after a power-on, does not run after a stage that waits.
func (r *Reconciler) withoutFence(ctx context.Context, s *scope, waits outcome.Outcome) (outcome.Outcome, error) {
	if waits.IsDone() || s.record.Fence == remediation.NoFence || !s.host.Status.PoweredOn {
		return waits, nil
	}
	node, err := r.watchNode(ctx, s)
	if err == nil && node != nil {
		err = r.unfence(ctx, s, node)
	}
	if workload.IsUnreachable(err) {
		return waits.WithAfter(pollInterval), nil
	}
	return waits, err
}

func (r *Reconciler) unfence(ctx context.Context, s *scope, node *corev1.Node) error {
	desired := node
	switch s.record.Fence {
	case remediation.NoFence:
		return nil
	case remediation.TaintFence:
		desired = remediation.Untainted(node)
	case remediation.DeleteFence:
		var err error
		if desired, err = remediation.Restored(s.request, node); err != nil {
			return err
		}
	}
	if err := r.Nodes.Write(ctx, s.clusterKey(), node, desired); err != nil {
		return err
	}
	remediation.DropBackup(s.request)
	return r.fenceBy(ctx, s, remediation.NoFence)
}
