package metal3remediation

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// protect waits while a power-off of the host could stop the management cluster or the Ironic endpoint, which power the
// host on again.
func (r *Reconciler) protect(ctx context.Context, s *scope) (outcome.Outcome, error) {
	record, _ := r.next(s)
	powersOff := record.Phase == infrav1.RemediationRunning && !remediation.AskedOff(s.host)
	if !powersOff || !util.IsControlPlaneMachine(s.owner) {
		return outcome.Done(), nil
	}
	plane := remediation.ControlPlane{Host: s.host.Name, Node: s.owner.Status.NodeRef.Name}
	if err := r.readManagement(ctx, s, &plane); err != nil {
		return outcome.Done(), err
	}
	if err := r.readCarriers(ctx, s, &plane); err != nil {
		return outcome.Done(), err
	}
	return remediation.Protect(plane).WithAfter(pollInterval), nil
}

// readManagement reads the control-plane nodes of the management cluster, if the Machine is one of them. It does not
// read the workload cluster: if its only node is unhealthy, its API server may not answer.
func (r *Reconciler) readManagement(ctx context.Context, s *scope, plane *remediation.ControlPlane) error {
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes, client.HasLabels{workload.ControlPlaneRole}); err != nil {
		return fmt.Errorf("listing the control-plane nodes of the management cluster: %w", err)
	}
	var management []remediation.ManagementNode
	own := false
	for i := range nodes.Items {
		node := &nodes.Items[i]
		management = append(management, remediation.ManagementNode{Name: node.Name, Ready: isReady(node)})
		own = own || node.Name == plane.Node && node.Spec.ProviderID == s.owner.Spec.ProviderID
	}
	if own {
		plane.Management = management
	}
	return nil
}

func isReady(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// readCarriers reads the nodes with the Ironic endpoint of the cluster, if it has one.
func (r *Reconciler) readCarriers(ctx context.Context, s *scope, plane *remediation.ControlPlane) error {
	if s.infra == nil || s.infra.Spec.Ironic == nil {
		return nil
	}
	endpoint := s.infra.Spec.Ironic
	seen, err := r.ControlPlanes.Look(ctx, s.clusterKey(), endpoint.ClusterID)
	if errors.Is(err, workload.ErrUnreachable) {
		// Before the move, the management cluster holds the VIP.
		afterMove := cmp.Or(endpoint.Takeover, infrav1.TakeoverAfterMove) == infrav1.TakeoverAfterMove
		plane.CarriersUnknown = plane.Management != nil || !afterMove
		return nil
	}
	for _, node := range seen.Nodes {
		plane.Carriers = append(plane.Carriers, remediation.Carrier{
			Name: node.Name, Ready: node.PodsReady,
			Armed: node.Armed == pivot.ArmedByProvider || node.Armed == pivot.ArmedByUser,
		})
	}
	return err
}
