package metal3cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// scope holds what one reconcile observes.
type scope struct {
	infra *infrav1.Metal3Cluster
	pass  *flow.Pass

	// cluster is the Cluster. Nil until it has set its owner reference, and when it is gone.
	cluster *clusterv1.Cluster

	// machines is how many Machines the Cluster has. Not counted when nobody waits for them.
	machines int

	// paused says that the object or its Cluster is paused.
	paused bool

	// endpoint is where the API server answers. Not valid until somebody gave one.
	endpoint clusterv1.APIEndpoint

	// sharers are the other Metal3Clusters with the control-plane endpoint of this one.
	sharers []string

	// move is what decides whether the namespace can be moved. While the Cluster is paused, only hosts and Clusters are
	// read.
	move pivot.MoveFacts

	// plane is what the last probe has seen of the nodes of the control plane. Nil without spec.ironic, before the first
	// probe, and while the workload cluster does not answer.
	plane *workload.ControlPlane

	// nodes is the control plane to probe. Nil without spec.ironic.
	nodes *nodesTarget

	// isClaimProbed says that the cluster was claimed with the epoch of the Metal3Cluster, or that it does not answer.
	// Standing is what the recorded claim means, and empty if the cluster does not answer.
	isClaimProbed bool
	claim         pivot.Claim
	standing      pivot.Standing

	// nodesPending says that the nodes were not probed yet.
	nodesPending bool

	// secretProblem says that a Secret of the Ironic endpoint is missing or must be corrected.
	secretProblem bool

	// controlPlane are the names of the nodes of the control plane, and hosts the names that hosts of the cluster have in
	// Ironic, if BMO keeps them there. Not read without spec.ironic.
	controlPlane, hosts []string

	// nodesMissing says that there may be more nodes of the control plane than those: a Machine lost the name of its node
	// in a move, and the nodes were not seen yet.
	nodesMissing bool

	// hasControlPlane says that the control plane has Machines, so that nodes may run with the endpoint already.
	hasControlPlane bool

	// around are those who may use the same as the Ironic endpoint, and rivals what is said of those who do. Not read
	// without spec.ironic.
	around controlplane.Surroundings
	rivals []string

	// material is what the Ironic endpoint is served with. Empty until its Secret is complete.
	material secrets.Material

	// verdict says what the last probe of the Ironic endpoint means. Nil until there was one.
	verdict *pivot.Verdict

	// holder is who held the Ironic endpoint before this reconcile. Nil if nobody knew.
	holder *infrav1.IronicHolder
}

func (r *Reconciler) readCluster(ctx context.Context, s *scope) error {
	cluster, err := util.GetOwnerCluster(ctx, r.Client, s.infra.ObjectMeta)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading the Cluster of Metal3Cluster %s: %w", s.infra.Name, err)
	}
	if err == nil {
		s.cluster = cluster
	}
	s.paused = flow.Paused(s.cluster, s.infra)
	return nil
}

func (r *Reconciler) readMachines(ctx context.Context, s *scope) error {
	if s.infra.DeletionTimestamp.IsZero() || s.cluster == nil {
		return nil
	}
	var machines clusterv1.MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(s.infra.Namespace),
		client.MatchingLabels{clusterv1.ClusterNameLabel: s.cluster.Name}); err != nil {
		return fmt.Errorf("listing the Machines of Cluster %s: %w", s.cluster.Name, err)
	}
	s.machines = len(machines.Items)
	return nil
}

// readSharers finds the other Metal3Clusters with the control-plane endpoint of this one, in all namespaces of the
// manager: they share a network.
func (r *Reconciler) readSharers(ctx context.Context, s *scope) error {
	if !s.infra.Spec.ControlPlaneEndpoint.IsValid() || !s.infra.DeletionTimestamp.IsZero() {
		return nil
	}
	for _, other := range r.withEndpointOf(ctx, s.infra) {
		s.sharers = append(s.sharers, other.String())
	}
	slices.Sort(s.sharers)
	return nil
}

func waitForCluster(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.cluster != nil {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.WaitingForClusterReason,
		"Waiting for Cluster API to set the ownerReference of a Cluster"), nil
}

func keepFinalizer(_ context.Context, s *scope) (outcome.Outcome, error) {
	controllerutil.AddFinalizer(s.infra, infrav1.ClusterFinalizer)
	return outcome.Done(), nil
}

func dropFinalizer(_ context.Context, s *scope) (outcome.Outcome, error) {
	controllerutil.RemoveFinalizer(s.infra, infrav1.ClusterFinalizer)
	return outcome.Done(), nil
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
	// Not provisioned without a finalizer: the deletion would not wait for the machines.
	if err := s.pass.Save(ctx); err != nil {
		return outcome.Done(), err
	}
	s.infra.Status.Initialization.Provisioned = ptr.To(true)
	return outcome.Done(), nil
}

func waitForMachines(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.machines == 0 {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.WaitingForMachinesReason,
		fmt.Sprintf("Waiting for the Machines of Cluster %s to be deleted", s.cluster.Name)), nil
}

// releaseReservations releases the hosts that node reuse reserves for the Cluster: none of its Machines is left to do
// it. An error of one host does not stop the others.
func (r *Reconciler) releaseReservations(ctx context.Context, s *scope) (outcome.Outcome, error) {
	cluster := ownerCluster(s.infra)
	if cluster == "" {
		return outcome.Done(), nil
	}
	hosts, err := r.Hosts.Reserved(ctx, s.infra.Namespace)
	if err != nil {
		return outcome.Done(), err
	}
	var failures []error
	for _, current := range hosts {
		free, reserved := host.WithoutReservation(current, s.infra.Namespace, cluster)
		if !reserved {
			continue
		}
		if _, err := r.Hosts.Write(ctx, current, free); client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("releasing BareMetalHost %s, reserved for Cluster %s: %w",
				current.Name, cluster, err))
		}
	}
	return outcome.Done(), errors.Join(failures...)
}

// ownerCluster is the name of the Cluster that owns the Metal3Cluster. It is known when the Cluster itself is gone as
// well. Empty for a Metal3Cluster that never had one.
func ownerCluster(infra *infrav1.Metal3Cluster) string {
	for _, owner := range infra.OwnerReferences {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if owner.Kind == clusterv1.ClusterKind && group == clusterv1.GroupVersion.Group {
			return owner.Name
		}
	}
	return ""
}
