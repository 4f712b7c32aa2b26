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

// claimNodes claims a control plane, and judges the standing of this management cluster. The first row that fits
// counts.
//
//	error          epoch  had Nodes  standing before  standing, and what it means
//	none           any    any        any              the recorded one
//	a refusal      any    any        any              not known: paused hosts stay paused, and the VIP is not reclaimed
//	no kubeconfig  > 0    any        any              not known: as for a refusal
//	no kubeconfig  0      yes        any              not known: as for a refusal. A backup may precede the first move
//	any other      any    any        known            the same: a claim does not end
//	no kubeconfig  0      no         not known        not known, and stops nothing: the control plane is new
//	not tried      any    any        not known        not known yet: as without a probe
//	no connection  any    any        not known        not known, and stops nothing: hosts may require the repair
//	any other      any    any        not known        not known: as for a refusal
//
// An invalid kubeconfig counts as none.
// A Cluster that is being deleted is no exception: BMO would wipe paused hosts that another one may manage.
// Where the standing is not known, the claim in the status counts: see readStanding.
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

// readStanding reads who manages the cluster. Where the last probe of this process does not tell, the claim of another
// management cluster in the status counts, unless the Metal3Cluster has a newer epoch: it was moved back or has taken
// over.
func (s *scope) readStanding(result nodesResult, isProbed bool) {
	if isProbed {
		s.standing, s.claim, s.isClaimProbed = result.standing, result.claim, !result.isUnproven
		s.isUnproven = result.isUnproven
	}
	recorded := pivot.ClaimElsewhere(s.infra)
	if s.standing == "" && pivot.StandingOf(pivot.Claim{Epoch: s.nodes.epoch}, recorded) == pivot.Superseded {
		s.standing, s.claim = pivot.Superseded, *recorded
	}
}

// fence stops a management cluster when another one has claimed the cluster.
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

// awaitClaim waits until the workload cluster was claimed. A workload cluster that does not answer stops nothing: its
// hosts may require the repair. The ClusterCache does not connect to one without infrastructureProvisioned.
func awaitClaim(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.infra.Spec.Ironic == nil, s.isClaimProbed:
		return outcome.Done(), nil
	case s.isUnproven:
		return outcome.Waiting(infrav1.EndpointFailedReason, fmt.Sprintf("Paused BareMetalHosts stay paused, because "+
			"another management cluster may manage the workload cluster: %s", s.move.NodesUnknown)), nil
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return outcome.Waiting(infrav1.NotYetObservedReason, fmt.Sprintf("Waiting for Cluster API to set "+
			"status.initialization.infrastructureProvisioned of Cluster %s: until then, the manager does not ask the workload "+
			"cluster which management cluster manages it. If this lasts, see whether the manager of Cluster API runs",
			s.cluster.Name)), nil
	default:
		return outcome.Waiting(infrav1.NotYetObservedReason,
			"Waiting for the first probe of the management cluster that the workload cluster records"), nil
	}
}

// claimElsewhere returns the claim of another management cluster for the status. Nil if this one manages the cluster.
func (s *scope) claimElsewhere() *infrav1.IronicClaim {
	if s.standing != pivot.Superseded {
		return nil
	}
	return &infrav1.IronicClaim{Epoch: int64(s.claim.Epoch), ManagementCluster: s.claim.Manager}
}
