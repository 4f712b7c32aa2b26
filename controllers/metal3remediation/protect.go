package metal3remediation

import (
	"cmp"
	"context"
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

// operators are the programs that power hosts on, with the namespaces of their releases and the labels of their pods.
// Releases of BMO since 0.5 have the first label, and the releases of this provider the second one.
var operators = []struct{ name, namespace, label, value string }{
	{"the Baremetal Operator", "baremetal-operator-system", "webhook", "metal3-io-v1alpha1-baremetalhost"},
	{"this manager", "capm3-system", "cluster.x-k8s.io/provider", "infrastructure-metal3"},
}

// protectTry protects, and stops the timeout of a try meanwhile. The timeout of a try whose host is powered on again
// continues: the next try begins as soon as it may.
func (r *Reconciler) protectTry(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.record.Phase == infrav1.RemediationWaiting {
		protected, err := r.protect(ctx, s)
		if err != nil {
			return protected, err
		}
		return r.withoutFence(ctx, s, protected)
	}
	return r.suspending(r.protect)(ctx, s)
}

// protect waits while a power-off of the host could stop the management cluster or the Ironic endpoint, which power the
// host on again.
func (r *Reconciler) protect(ctx context.Context, s *scope) (outcome.Outcome, error) {
	record, _ := r.next(s)
	if record.Phase != infrav1.RemediationRunning || remediation.HasPowerOffRequest(s.host) {
		return outcome.Done(), nil
	}
	around := remediation.Surroundings{Host: s.host.Name, Node: s.owner.Status.NodeRef.Name}
	if err := r.readManagement(ctx, s, &around); err != nil {
		return outcome.Done(), err
	}
	if err := r.readCarriers(ctx, s, &around); err != nil {
		return outcome.Done(), err
	}
	if around.IsAlone() {
		return outcome.Done(), nil
	}
	decision, err := r.decide(ctx, s, around)
	return decision.WithAfter(pollInterval), err
}

// readManagement reads the nodes and the operators of the management cluster, if the Machine is one of its nodes. It
// does not read the workload cluster: if its only node is unhealthy, its API server may not answer.
func (r *Reconciler) readManagement(ctx context.Context, s *scope, around *remediation.Surroundings) error {
	if around.Node == "" {
		return nil
	}
	own, err := r.listNodes(ctx, client.MatchingFields{"metadata.name": around.Node})
	if err != nil || len(own) == 0 || own[0].Spec.ProviderID != s.owner.Spec.ProviderID {
		return err
	}
	nodes, err := r.listNodes(ctx)
	if err != nil {
		return err
	}
	for i := range nodes {
		_, controlPlane := nodes[i].Labels[workload.ControlPlaneRole]
		around.Management = append(around.Management, remediation.ManagementNode{Node: &nodes[i], ControlPlane: controlPlane})
	}
	for _, operator := range operators {
		var pods corev1.PodList
		if err := r.Live.List(ctx, &pods, client.MatchingLabels{operator.label: operator.value}); err != nil {
			return fmt.Errorf("listing the pods of %s: %w", operator.name, err)
		}
		around.Operators = append(around.Operators, remediation.Operator{
			Name: operator.name, Namespace: operator.namespace, Pods: pods.Items,
		})
	}
	return nil
}

func (r *Reconciler) listNodes(ctx context.Context, options ...client.ListOption) ([]corev1.Node, error) {
	var nodes corev1.NodeList
	if err := r.Live.List(ctx, &nodes, options...); err != nil {
		return nil, fmt.Errorf("listing the nodes of the management cluster: %w", err)
	}
	return nodes.Items, nil
}

// readCarriers reads the nodes with the Ironic endpoint of the cluster, if the Machine may be one of them.
func (r *Reconciler) readCarriers(ctx context.Context, s *scope, around *remediation.Surroundings) error {
	if s.infra == nil || s.infra.Spec.Ironic == nil || !util.IsControlPlaneMachine(s.owner) {
		return nil
	}
	endpoint := s.infra.Spec.Ironic
	seen, err := r.ControlPlanes.Read(ctx, s.clusterKey(), endpoint.ClusterID)
	if workload.IsUnreachable(err) {
		// Before the move, the management cluster holds the VIP.
		afterMove := cmp.Or(endpoint.Takeover, infrav1.TakeoverAfterMove) == infrav1.TakeoverAfterMove
		around.CarriersUnknown = around.Management != nil || !afterMove
		return nil
	}
	for _, node := range seen.Nodes {
		around.Carriers = append(around.Carriers, remediation.Carrier{
			Name: node.Name, Ready: node.PodsReady,
			Armed: node.Armed == pivot.ArmedByProvider || node.Armed == pivot.ArmedByUser,
		})
	}
	return err
}
