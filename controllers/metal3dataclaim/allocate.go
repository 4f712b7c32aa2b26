package metal3dataclaim

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// checkClaim returns blocked for an invalid claim. Admission refuses a claim without a template.
func (r *Reconciler) checkClaim(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.templateName() == "":
		return outcome.Blocked(infrav1.InvalidClaimReason,
			"spec.template.name is empty. Delete the Metal3DataClaim and create one that names a Metal3DataTemplate."), nil
	case s.machine == nil:
		return outcome.Blocked(infrav1.InvalidClaimReason, "metadata.ownerReferences names no Metal3Machine. "+
			"Set spec.dataTemplate of a Metal3Machine, which then creates its Metal3DataClaim, and delete this one."), nil
	default:
		return outcome.Done(), nil
	}
}

// waitForTemplate waits for the template. One that is being deleted serves its claims, as in CAPM3: it exists until no
// claim names it.
func (r *Reconciler) waitForTemplate(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.template == nil {
		return outcome.Waiting(infrav1.TemplateMissingReason, fmt.Sprintf(
			"Metal3DataTemplate %s does not exist. Create it, or name another one in a new Metal3MachineTemplate.",
			s.templateName())), nil
	}
	return outcome.Done(), nil
}

// createData creates the Metal3Data with the lowest free index.
func (r *Reconciler) createData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	data, err := r.Data.Create(ctx, s.claim, desired(s))
	if err != nil {
		return outcome.Done(), err
	}
	s.data = data
	return r.deleteSurplus(ctx, s)
}

// desired returns the Metal3Data for a claim, without name and index. It includes the names of the Secrets, so that
// rendering requires no additional write.
func desired(s *scope) *infrav1.Metal3Data {
	here := s.claim.Namespace
	data := &infrav1.Metal3Data{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  here,
			Labels:     s.claim.Labels,
			Finalizers: []string{infrav1.DataClaimFinalizer, infrav1.DataFinalizer},
			OwnerReferences: []metav1.OwnerReference{
				{
					APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3DataClaim",
					Name: s.claim.Name, UID: s.claim.UID, Controller: ptr.To(true),
				},
				{
					APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Machine",
					Name: s.machine.Name, UID: s.machine.UID,
				},
			},
		},
		Spec: infrav1.Metal3DataSpec{
			Template: &infrav1.Metal3ObjectRef{Name: s.template.Name, Namespace: here},
			Claim:    &infrav1.Metal3ObjectRef{Name: s.claim.Name, Namespace: here},
		},
	}
	if s.template.Spec.MetaData != nil {
		data.Spec.MetaData = &corev1.SecretReference{Name: hostdata.MetaDataSecret(s.machine.Name), Namespace: here}
	}
	if s.template.Spec.NetworkData != nil {
		data.Spec.NetworkData = &corev1.SecretReference{Name: hostdata.NetworkDataSecret(s.machine.Name), Namespace: here}
	}
	return data
}

// deleteSurplus deletes Metal3Data that no claim requires.
func (r *Reconciler) deleteSurplus(ctx context.Context, s *scope) (outcome.Outcome, error) {
	for _, data := range s.surplus {
		if err := r.delete(ctx, data); err != nil {
			return outcome.Done(), err
		}
	}
	return outcome.Done(), nil
}

// waitForMachine waits until the Metal3Machine no longer requires its data. It removes the finalizer of a
// Metal3Machine that does not exist.
func (r *Reconciler) waitForMachine(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if !controllerutil.ContainsFinalizer(s.claim, infrav1.MachineFinalizer) {
		return outcome.Done(), nil
	}
	name := s.claim.Name
	if s.machine != nil {
		name = s.machine.Name
	}
	key := client.ObjectKey{Namespace: s.claim.Namespace, Name: name}
	machine, err := flow.Find[infrav1.Metal3Machine](ctx, r.Live, key)
	switch {
	case err != nil:
		return outcome.Done(), err
	case machine != nil && (s.machine == nil || machine.UID == s.machine.UID):
		return outcome.Waiting(infrav1.WaitingForMachineReleaseReason, fmt.Sprintf(
			"Waiting for Metal3Machine %s to be deleted, which uses the data", name)), nil
	default:
		controllerutil.RemoveFinalizer(s.claim, infrav1.MachineFinalizer)
		return outcome.Done(), nil
	}
}

// deleteData deletes all Metal3Data of the claim. Their controller releases the addresses.
func (r *Reconciler) deleteData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.data != nil {
		if err := r.delete(ctx, s.data); err != nil {
			return outcome.Done(), err
		}
	}
	return r.deleteSurplus(ctx, s)
}

// delete removes the finalizer of the claim from a Metal3Data, and deletes the Metal3Data.
func (r *Reconciler) delete(ctx context.Context, cached *infrav1.Metal3Data) error {
	return flow.Discard(ctx, r.Client, cached.DeepCopy(), infrav1.DataClaimFinalizer, false)
}
