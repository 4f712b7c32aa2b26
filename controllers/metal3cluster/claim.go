package metal3cluster

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// claimNodes claims a control plane, and returns the standing of this management cluster. The first matching row
// applies.
//
//	error          epoch  had Nodes  last standing with it  standing and effect
//	none           any    any        any                    the recorded one
//	a refusal      any    any        any                    unknown: paused hosts stay paused, the VIP is not reclaimed
//	no kubeconfig  > 0    any        any                    unknown: as for a refusal
//	no kubeconfig  0      yes        any                    unknown: as for a refusal. A backup may precede a move
//	any other      any    any        known                  the last one: a claim does not end
//	no kubeconfig  0      no         unknown                unknown, and no hosts stay paused: the control plane is new
//	not tried      any    any        unknown                unknown: as without a probe
//	no connection  any    any        unknown                unknown, and no hosts stay paused: a repair requires them
//	any other      any    any        unknown                unknown: as for a refusal
//
// An invalid kubeconfig counts as none. This includes a Cluster that is being deleted: BMO would wipe paused hosts that
// another management cluster may manage. If the standing is unknown, the claim in the status applies: see readStanding.
func claimNodes(
	ctx context.Context, planes ControlPlanes, target nodesTarget, last *nodesResult,
) (nodesResult, error) {
	result := nodesResult{epoch: target.epoch}
	var err error
	result.claim, result.standing, err = planes.Claim(ctx, target.cluster, target.epoch)
	if err == nil {
		return result, nil
	}
	result.claim, result.standing, result.problem = pivot.Claim{}, "", describe("it could not be claimed: ", err)
	lost := errors.Is(err, workload.ErrNoKubeconfig)
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err), apierrors.IsInvalid(err):
		result.isUnproven = true
		result.problem += fmt.Sprintf(". Correct the permissions of the kubeconfig of Cluster %s", target.cluster.Name)
	case lost && (target.epoch > 0 || target.hadNodes):
		result.isUnproven = true
	case last != nil && last.epoch == target.epoch && last.standing != "":
		result.claim, result.standing = last.claim, last.standing
	default:
		result.isPending = errors.Is(err, workload.ErrNotTried)
		result.isUnproven = !lost && !errors.Is(err, workload.ErrUnreachable)
	}
	return result, err
}

// readStanding reads which management cluster manages the cluster. If the last probe has no standing, the claim of
// another management cluster in the status applies, unless the Metal3Cluster has a newer epoch: it was moved back, or
// this management cluster took over.
func (s *scope) readStanding(result nodesResult, isProbed bool) {
	if isProbed {
		s.standing, s.claim, s.isClaimProbed = result.standing, result.claim, !result.isUnproven
		s.isUnproven = result.isUnproven
	}
	if recorded := supersedingClaim(s.infra); s.standing == "" && recorded != nil {
		s.standing, s.claim = pivot.Superseded, *recorded
	}
}

// supersedingClaim returns the claim of another management cluster in the status, unless the Metal3Cluster has a newer
// epoch. Nil if there is none.
func supersedingClaim(infra *infrav1.Metal3Cluster) *pivot.Claim {
	recorded := pivot.ClaimElsewhere(infra)
	own := pivot.Claim{Epoch: pivot.EpochOf(infra).Unpaused()}
	if pivot.StandingOf(own, recorded) != pivot.Superseded {
		return nil
	}
	return recorded
}

// fence stops the reconcile if another management cluster has claimed the cluster.
func fence(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch s.standing {
	case pivot.Superseded:
		return outcome.Waiting(infrav1.ManagedElsewhereReason,
			pivot.SupersededMessage(s.infra, s.claim)), nil
	case pivot.Behind:
		metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.MoveEpochAnnotation, s.claim.Epoch.String())
	case pivot.Claims, pivot.Current:
	}
	return outcome.Done(), nil
}

// awaitClaim waits until the workload cluster was claimed. It does not wait for a workload cluster that does not
// answer: its repair may require the hosts. The ClusterCache does not connect to a cluster without
// infrastructureProvisioned.
func awaitClaim(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.infra.Spec.Ironic == nil, s.isClaimProbed:
		return outcome.Done(), nil
	case s.isUnproven:
		return outcome.Waiting(infrav1.EndpointFailedReason, fmt.Sprintf("Paused BareMetalHosts stay paused, because "+
			"another management cluster may manage the workload cluster: %s", s.move.NodesUnknown)), nil
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return outcome.Waiting(infrav1.NotYetObservedReason, fmt.Sprintf("Waiting for Cluster API to set "+
			"status.initialization.infrastructureProvisioned of Cluster %s. The manager then reads which management cluster "+
			"has claimed the workload cluster. If this lasts, check that the manager of Cluster API runs",
			s.cluster.Name)), nil
	default:
		return outcome.Waiting(infrav1.NotYetObservedReason,
			"Waiting for the first probe of the management cluster that the workload cluster records"), nil
	}
}

// claimElsewhere returns the claim of another management cluster for the status. Nil if this management cluster manages
// the Cluster.
func (s *scope) claimElsewhere() *infrav1.IronicClaim {
	if s.standing != pivot.Superseded {
		return nil
	}
	return &infrav1.IronicClaim{Epoch: int64(s.claim.Epoch), ManagementCluster: s.claim.Manager}
}
