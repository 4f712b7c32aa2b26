package metal3cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// scope holds what one reconcile observes.
type scope struct {
	infra *infrav1.Metal3Cluster
	pass  *flow.Pass

	// cluster is the Cluster. Nil before Cluster API sets the ownerReference, and if the Cluster does not exist.
	cluster *clusterv1.Cluster

	// pause is why the object or its Cluster is paused. Empty if neither is.
	pause string

	// endpoint is the control-plane endpoint. Invalid until findEndpoint sets it.
	endpoint clusterv1.APIEndpoint

	// sharers are the other Metal3Clusters with the control-plane endpoint of this one or of its Cluster.
	sharers []string

	// move are the facts that decide whether the namespace can be moved. While the Cluster is paused, only hosts and
	// Clusters are read.
	move pivot.MoveFacts

	// hostDefinition is the generation of the CRD of hosts, and untilTrial the time until the next trial pause of hosts. 0
	// means never.
	hostDefinition int64
	untilTrial     time.Duration

	// secretRead is the last read of the Secrets of the namespace. Empty before the first one. secretsBlocked is the
	// result of secretsBlock for it.
	secretRead     secretRead
	secretsBlocked bool

	// plane is the control plane of the last probe. Nil without spec.ironic, before the first probe, and while the
	// workload cluster does not answer.
	plane *workload.ControlPlane

	// nodes is the control plane to probe. Nil without spec.ironic.
	nodes *nodesTarget

	// isClaimProbed is true if the cluster was claimed with the epoch of the Metal3Cluster, or did not answer. standing
	// compares the recorded claim with that epoch. Empty if the claim is unknown. isUnproven is true if the claim failed.
	isClaimProbed, isUnproven bool
	claim                     pivot.Claim
	standing                  pivot.Standing

	// nodesPending is true before the first probe of the nodes.
	nodesPending bool

	// secretProblem is true while a Secret of the Ironic endpoint is missing or invalid.
	secretProblem bool

	// controlPlane are the names of the nodes of the control plane, and hosts the names in Ironic of the hosts that BMO
	// registers. Not read without spec.ironic.
	controlPlane, hosts []string

	// nodeIDs are the IDs of all nodes in Ironic by name. Nil unless the Ironic of the cluster answers.
	nodeIDs map[string]string

	// nodesMissing is true if the control plane may have more nodes: a Machine lost its status.nodeRef in a move, and the
	// nodes were not probed yet.
	nodesMissing bool

	// hasControlPlane is true if the control plane has Machines, so nodes may run the endpoint already.
	hasControlPlane bool

	// around are the objects that may conflict with the Ironic endpoint, and conflicts the messages about conflicts.
	// Not read without spec.ironic.
	around    controlplane.Surroundings
	conflicts []string

	// material has the credentials and certificates of the Ironic endpoint. Empty until its Secret is complete.
	material secrets.Material

	// unowned is the error for Secrets of the user without an ownerReference of the Metal3Cluster. Nil if there are none.
	unowned *secrets.UnownedError

	// verdict evaluates the last probe of the Ironic endpoint. Nil before the first probe.
	verdict *pivot.Verdict

	// certificateEnds is the warning about a certificate of the Ironic endpoint that ends soon. Empty if none does.
	certificateEnds string

	// outdatedNodes is a sentence about the nodes that the next rollout of the control plane updates. Empty if there are
	// none.
	outdatedNodes string

	// holder is the VIP holder before this reconcile. Nil if unknown.
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
	s.pause = flow.Paused(s.cluster, s.infra)
	return nil
}

// ownerCluster returns the name of the Cluster that owns the Metal3Cluster, even if it does not exist. Empty without
// an owner.
func ownerCluster(infra *infrav1.Metal3Cluster) string {
	for _, owner := range infra.OwnerReferences {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if owner.Kind == clusterv1.ClusterKind && group == clusterv1.GroupVersion.Group {
			return owner.Name
		}
	}
	return ""
}
