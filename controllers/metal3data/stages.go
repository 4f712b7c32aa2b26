package metal3data

import (
	"context"
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// waitForClaimed waits for the claim. The garbage collector deletes data without a claim.
func (r *Reconciler) waitForClaimed(_ context.Context, s *scope) (outcome.Outcome, error) {
	name := nameOf(s.data.Spec.Claim)
	switch {
	case s.claimed():
		return outcome.Done(), nil
	case name == "":
		return outcome.Blocked(infrav1.WaitingForClaimReason, "spec.claim.name is empty. Delete the Metal3Data: the "+
			"Metal3DataClaim of a Metal3Machine creates its own."), nil
	case s.claim == nil:
		return outcome.Waiting(infrav1.WaitingForClaimReason, fmt.Sprintf(
			"Waiting for Metal3DataClaim %s to exist. Delete the Metal3Data if no machine uses it.", name)), nil
	default:
		return outcome.Waiting(infrav1.WaitingForClaimReason, fmt.Sprintf(
			"Metal3DataClaim %s is being deleted, and deletes the Metal3Data", name)), nil
	}
}

// keepFinalizer adds the finalizer and stores it before the first claim of an address.
func (r *Reconciler) keepFinalizer(ctx context.Context, s *scope) (outcome.Outcome, error) {
	controllerutil.AddFinalizer(s.data, infrav1.DataFinalizer)
	return outcome.Done(), s.pass.Save(ctx)
}

// waitForFacts waits for the objects with the values for the template.
func (r *Reconciler) waitForFacts(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.rendered:
		return outcome.Done(), nil
	case s.template == nil:
		return outcome.Waiting(infrav1.TemplateMissingReason, fmt.Sprintf(
			"Metal3DataTemplate %s does not exist. Create it again.", nameOf(s.data.Spec.Template))), nil
	case s.machine == nil || s.owner == nil:
		return outcome.Waiting(infrav1.WaitingForMachineReason, fmt.Sprintf(
			"Waiting for the Metal3Machine of Metal3DataClaim %s, and for its Machine", s.claim.Name)), nil
	case s.host == nil:
		return outcome.Waiting(infrav1.WaitingForHostReason, fmt.Sprintf(
			"Waiting for Metal3Machine %s to be associated with a BareMetalHost", s.machine.Name)), nil
	default:
		return outcome.Done(), nil
	}
}

// claimAddresses claims an address of each pool of the template, and collects the addresses. For rendered data, it only
// watches the claims.
func (r *Reconciler) claimAddresses(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.rendered {
		r.watchPools(ctx, s)
		return outcome.Done(), nil
	}
	uses, err := hostdata.Pools(&s.template.Spec, s.subject())
	if err != nil {
		return outcome.Blocked(infrav1.RenderingFailedReason, problem(s, err)), nil
	}
	s.addresses = map[hostdata.Pool]hostdata.Address{}
	waits := outcome.Done()
	for _, claim := range hostdata.Claims(s.data.Name, s.host.Name, r.ByHostName, uses) {
		reached, err := r.claimAddress(ctx, s, claim)
		if err != nil {
			return outcome.Done(), err
		}
		if waits.IsDone() || failures()[reached.Reason] && !failures()[waits.Reason] {
			waits = reached
		}
	}
	return waits, nil
}

// problem returns the message for a template that cannot be rendered.
func problem(s *scope, err error) string {
	return fmt.Sprintf("Metal3DataTemplate %s cannot be rendered for Metal3Machine %s: %s",
		s.template.Name, s.machine.Name, strings.TrimSuffix(strings.TrimPrefix(err.Error(), "["), "]"))
}

// waitForClaim keeps data that is being deleted until its claim is deleted.
func (r *Reconciler) waitForClaim(_ context.Context, s *scope) (outcome.Outcome, error) {
	return outcome.Waiting(infrav1.WaitingForClaimReason, fmt.Sprintf(
		"Waiting for Metal3DataClaim %s to be deleted, because its Metal3Machine uses the data", s.claim.Name)), nil
}

// confirmRelease waits until the claim has released the data, or does not exist. It reads live, because the cache may
// show the claim after the data.
func (r *Reconciler) confirmRelease(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if !controllerutil.ContainsFinalizer(s.data, infrav1.DataClaimFinalizer) {
		return outcome.Done(), nil
	}
	claim, err := flow.Find[infrav1.Metal3DataClaim](ctx, r.Live, s.named(nameOf(s.data.Spec.Claim)))
	if err != nil || claim == nil || !hostdata.Answers(claim, s.data) {
		return outcome.Done(), err
	}
	return outcome.Waiting(infrav1.WaitingForClaimReason, fmt.Sprintf(
		"Waiting for Metal3DataClaim %s to release the data", nameOf(s.data.Spec.Claim))), nil
}
