package metal3machine

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// refusalDelay is the time until the next attempt of a refused write that does not stop the machine. A change of the
// permissions is no event.
const refusalDelay = time.Minute

// provisionHost writes image and data on the host and waits for BMO to provision it.
func (r *Reconciler) provisionHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	stored, err := r.writeHost(ctx, s, desiredClaim(s))
	if err != nil {
		return outcome.Done(), err
	}
	s.host = stored
	reached := host.Progress(s.host)
	if s.machine.Spec.ProviderID != "" && host.Arrived(s.host) {
		// The provider ID shows that the host was provisioned before the move.
		reached = outcome.Done()
	}
	if s.ownersRefused == nil {
		return reached, nil
	}
	if !reached.IsDone() {
		reached.Message += "; " + s.ownersRefused.Error()
	}
	return reached.WithAfter(flow.Soonest(reached.After, refusalDelay)), nil
}

// writeHost writes the claim on the host of the machine. If the API server refuses to remove ownerReferences that CAPM3
// left on the host, they stay, and other changes are written. A claim of this reconcile that set the image is complete.
func (r *Reconciler) writeHost(ctx context.Context, s *scope, claim host.Claim) (*bmov1alpha1.BareMetalHost, error) {
	if s.claimed.Host != nil && host.IsImaged(s.host) {
		return s.host, nil
	}
	desired := host.Desired(s.host, claim)
	if s.ownersRefused == nil {
		stored, err := r.Hosts.Write(ctx, s.host, desired)
		if !hoststore.IsRefusal(err) || len(desired.OwnerReferences) == len(s.host.OwnerReferences) {
			return stored, err
		}
		s.ownersRefused = err
	}
	desired.OwnerReferences = s.host.OwnerReferences
	return r.Hosts.Write(ctx, s.host, desired)
}

// running returns the reason and message for a provisioned host. An error of the host, or a refused removal of its
// ownerReferences, changes the reason, which emits an event, and not the status.
func running(s *scope) flow.Reached {
	message, troubled := host.Running(s.host)
	switch {
	case troubled:
		return flow.Reached{Reason: infrav1.HostErrorReason, Message: message}
	case s.ownersRefused != nil:
		return flow.Reached{
			Reason: infrav1.ProvisioningFailedReason, Message: fmt.Sprintf("%s; %v", message, s.ownersRefused),
		}
	default:
		return flow.Reached{Reason: infrav1.HostProvisionedReason, Message: message}
	}
}
