package metal3cluster

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

func waitForCluster(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.cluster != nil {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.WaitingForClusterReason,
		"Waiting for Cluster API to set the ownerReference of a Cluster"), nil
}

// findEndpoint finds the control-plane endpoint of the Metal3Cluster, or else that of the Cluster.
func findEndpoint(ctx context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.infra.Spec.ControlPlaneEndpoint.IsValid():
		s.endpoint = s.infra.Spec.ControlPlaneEndpoint
	case s.cluster.Spec.ControlPlaneEndpoint.IsValid():
		s.endpoint = s.cluster.Spec.ControlPlaneEndpoint
	default:
		return outcome.Blocked(infrav1.EndpointMissingReason, fmt.Sprintf(
			"Set spec.controlPlaneEndpoint.host and port of Metal3Cluster %s or of Cluster %s",
			s.infra.Name, s.cluster.Name)), nil
	}
	// The finalizer is stored before the object is provisioned, so that its deletion waits for the Machines.
	if err := s.pass.Save(ctx); err != nil {
		return outcome.Done(), err
	}
	s.infra.Status.Initialization.Provisioned = ptr.To(true)
	return outcome.Done(), nil
}

// endpointFound returns the message of the condition for a cluster with a control-plane endpoint.
func endpointFound(s *scope) flow.Reached {
	if len(s.sharers) == 0 {
		return flow.Reached{Reason: infrav1.InfrastructureReadyReason, Message: disagreement(s)}
	}
	return flow.Reached{Reason: infrav1.EndpointSharedReason, Message: fmt.Sprintf(
		"Control-plane endpoint %s is also that of Metal3Cluster %s. Correct spec.controlPlaneEndpoint of one of them, "+
			"or of its Cluster.",
		s.endpoint.String(), strings.Join(s.sharers, ", "))}
}

// disagreement returns a message if Cluster and Metal3Cluster name different endpoints: Cluster API keeps that of the
// Cluster.
func disagreement(s *scope) string {
	if s.cluster == nil {
		return ""
	}
	used := s.cluster.Spec.ControlPlaneEndpoint
	if !used.IsValid() || used == s.endpoint {
		return ""
	}
	return fmt.Sprintf("Cluster %s uses control-plane endpoint %s, not %s of the Metal3Cluster",
		s.cluster.Name, used.String(), s.endpoint.String())
}
