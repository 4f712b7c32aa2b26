package metal3machine

import (
	"context"
	"testing"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// noHost are hosts that no machine can claim.
type noHost struct{ Hosts }

func (noHost) Choose(context.Context, host.Wanted) (host.Choice, error) {
	return host.Choice{Message: "2 hosts: 2 claimed"}, nil
}

// TestWaitingMachineCountsAgain expects a requeue, because a change of a host requeues only one machine.
func TestWaitingMachineCountsAgain(t *testing.T) {
	s := complete(func(s *scope) { s.host = nil })
	got, err := (&Reconciler{Hosts: noHost{}}).claimHost(context.Background(), s)
	want := outcome.Waiting(infrav1.NoHostAvailableReason, "2 hosts: 2 claimed").WithAfter(recount)
	if err != nil || got != want || !s.waits {
		t.Errorf("got %+v, %v, waits %t, want %+v", got, err, s.waits, want)
	}
}
