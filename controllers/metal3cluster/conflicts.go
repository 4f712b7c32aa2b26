package metal3cluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// routerIDChosen is the reason of the event for a virtual router ID that differs from the default of the clusterID.
const routerIDChosen = "RouterIDChosen"

// findSurroundings finds the objects that may conflict with the Ironic endpoint.
func findSurroundings(_ context.Context, s *scope) error {
	if !s.keepsIronic() {
		return nil
	}
	s.around.Own, s.around.APIServer = s.infra, s.cluster.Spec.ControlPlaneEndpoint.Host
	if own := s.infra.Spec.ControlPlaneEndpoint.Host; own != "" {
		s.around.APIServer = own
	}
	for _, host := range s.move.Hosts {
		if pivot.ClusterOf(host) == s.cluster.Name {
			s.around.Hosts = append(s.around.Hosts, host)
		}
	}
	for _, object := range s.move.Naming {
		machine, is := object.(*infrav1.Metal3Machine)
		if is && machine.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name {
			s.around.Machines = append(s.around.Machines, machine)
		}
	}
	return nil
}

// chooseIdentity sets the clusterID of the endpoint if the webhook did not, and its virtual router ID if it has none.
// It stores both before any other stage uses them. Neither may change afterwards: the clusterID derives from a UID,
// which changes at a move, and the router ID depends on the other Metal3Clusters at the time of the choice.
func (r *Reconciler) chooseIdentity(ctx context.Context, s *scope) (outcome.Outcome, error) {
	ironic := s.infra.Spec.Ironic
	if ironic == nil || ironic.ClusterID != "" && ironic.VRRP.VirtualRouterID != 0 {
		return outcome.Done(), nil
	}
	if ironic.ClusterID == "" {
		ironic.ClusterID = pivot.ClusterID(string(s.infra.UID))
	}
	initial := int32(vip.Group{ClusterID: ironic.ClusterID}.ID()) //nolint:gosec // at most 255
	chosen := initial
	if ironic.VRRP.VirtualRouterID == 0 {
		// Running nodes use the default of the clusterID, and must keep it.
		if !s.hasControlPlane {
			chosen = controlplane.ChooseRouterID(s.around)
		}
		ironic.VRRP.VirtualRouterID = chosen
	}
	if err := s.pass.Save(ctx); err != nil {
		return outcome.Done(), err
	}
	if chosen != initial {
		r.Recorder.Eventf(s.infra, nil, corev1.EventTypeNormal, routerIDChosen, "Choose",
			"Chose virtual router ID %d for the Ironic endpoint, because another Metal3Cluster on this network has %d. "+
				"Use it for the Ironic of the management cluster too", chosen, initial)
	}
	return outcome.Done(), nil
}

// findConflicts finds the conflicting users of the endpoint. They stop no other stage: the VRRP election decides which
// node holds the VIP.
func findConflicts(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.infra.Spec.Ironic == nil {
		return outcome.Done(), nil
	}
	found := outcome.Done()
	for _, conflict := range controlplane.Conflicts(s.around) {
		s.conflicts = append(s.conflicts, conflict.Message)
		if found.IsDone() {
			found = outcome.Blocked(conflict.Reason, "")
		}
	}
	found.Message = pivot.Enumerate(s.conflicts)
	return found, nil
}
