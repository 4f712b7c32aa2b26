package metal3remediation

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// releaseHost powers the host on. It removes the annotation for unhealthy hosts, unless the Machine is being replaced.
// It does not write a host that the machine has released.
func (r *Reconciler) releaseHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.host == nil {
		return outcome.Done(), nil
	}
	desired := remediation.PowerOn(s.host)
	if s.isKept() {
		desired = remediation.Healthy(desired)
	}
	if err := r.write(ctx, s, desired); !apierrors.IsNotFound(err) {
		return outcome.Done(), err
	}
	return outcome.Done(), nil
}

// releaseNode removes the fence. It waits for a missing Node until the timeout of the try. Without a connection, or
// without permission, it waits as long, and at least for connectTime. A new manager first tries to connect.
func (r *Reconciler) releaseNode(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.record.Fence == remediation.NoFence || !s.isKept() || !s.owner.Status.NodeRef.IsDefined() {
		return outcome.Done(), nil
	}
	node, err := r.watchNode(ctx, s)
	if err == nil && node != nil {
		err = r.unfence(ctx, s, node)
	}
	now := r.Clock.Now()
	left := s.left(now)
	patience := max(left, s.request.DeletionTimestamp.Add(connectTime).Sub(now))
	switch {
	case errors.Is(err, workload.ErrNotTried):
		return r.Nodes.WaitForAPIServer(ctx, s.clusterKey()).WithAfter(pollInterval), nil
	case workload.IsUnreachable(err) && patience > 0:
		return r.Nodes.WaitForAPIServer(ctx, s.clusterKey()).WithAfter(min(patience, pollInterval)), nil
	case workload.IsUnreachable(err), apierrors.IsForbidden(err) && patience <= 0:
		return outcome.Done(), nil
	case err != nil, node != nil, left == 0:
		return outcome.Done(), err
	}
	return outcome.Waiting(infrav1.WaitingForNodeReason, fmt.Sprintf(
		"Waiting for Node %s to restore its annotations, labels and taints, until the timeout of the try",
		s.owner.Status.NodeRef.Name)).WithAfter(left), nil
}
