package metal3machine

import (
	"context"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// provisionHost writes image and data on the host and waits for BMO to provision it.
func (r *Reconciler) provisionHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	stored, err := r.Hosts.Write(ctx, s.host, host.Desired(s.host, desiredClaim(s)))
	if err != nil {
		return outcome.Done(), err
	}
	s.host = stored
	if s.machine.Spec.ProviderID != "" && host.Arrived(s.host) {
		// The provider ID shows that the host was provisioned before the move.
		return outcome.Done(), nil
	}
	return host.Progress(s.host), nil
}

// running returns the reason and message for a provisioned host. An error of the host changes the reason, which emits
// an event, and not the status.
func running(s *scope) flow.Reached {
	message, troubled := host.Running(s.host)
	if troubled {
		return flow.Reached{Reason: infrav1.HostErrorReason, Message: message}
	}
	return flow.Reached{Reason: infrav1.HostProvisionedReason, Message: message}
}
