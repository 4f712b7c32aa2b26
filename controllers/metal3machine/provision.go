package metal3machine

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// claimData makes sure that the data of spec.dataTemplate is asked for, and waits for it. A host that already runs does
// not wait: its data was handed over when it was provisioned.
func (r *Reconciler) claimData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.machine.Spec.DataTemplate == nil {
		return s.record(infrav1.DataReadyCondition, outcome.Done()), nil
	}
	if s.claim == nil {
		if err := r.createDataClaim(ctx, s); err != nil {
			return outcome.Done(), err
		}
	}
	if _, _, ready := dataSecrets(s); ready || isImaged(s.host) {
		return s.record(infrav1.DataReadyCondition, outcome.Done()), nil
	}
	if message := dataError(s); message != "" {
		return s.record(infrav1.DataReadyCondition, outcome.Waiting(infrav1.DataFailedReason, message)), nil
	}
	return s.record(infrav1.DataReadyCondition, outcome.Waiting(infrav1.WaitingForDataReason, fmt.Sprintf(
		"Waiting for Metal3DataTemplate %s to be rendered for Metal3DataClaim %s",
		s.machine.Spec.DataTemplate.Name, s.machine.Name))), nil
}

func (r *Reconciler) createDataClaim(ctx context.Context, s *scope) error {
	claim := &infrav1.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:  s.machine.Namespace,
			Name:       s.machine.Name,
			Labels:     s.machine.Labels,
			Finalizers: []string{infrav1.MachineFinalizer},
		},
		Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{
			Name: s.machine.Spec.DataTemplate.Name, Namespace: s.machine.Namespace,
		}},
	}
	if err := r.own(s, claim); err != nil {
		return fmt.Errorf("asking for the data of %s: %w", s.machine.Name, err)
	}
	if err := r.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("asking for the data of %s: %w", s.machine.Name, err)
	}
	s.claim = claim
	return nil
}

// own makes the machine the controller of an object. It does not block the deletion of the machine: where the API
// server checks that, it takes a permission on the finalizers of machines, and the finalizer of the machine waits
// already.
func (r *Reconciler) own(s *scope, object client.Object) error {
	return controllerutil.SetControllerReference(s.machine, object, r.Client.Scheme(),
		controllerutil.WithBlockOwnerDeletion(false))
}

// dataSecrets are the Secrets that the host gets besides its user data. The spec wins over rendered data. They are
// ready when nothing is left to be rendered.
func dataSecrets(s *scope) (metaData, networkData *corev1.SecretReference, ready bool) {
	namespace := s.machine.Namespace
	metaData = inNamespace(s.machine.Spec.MetaData, namespace)
	networkData = inNamespace(s.machine.Spec.NetworkData, namespace)
	if s.machine.Spec.DataTemplate == nil {
		return metaData, networkData, true
	}
	if s.data == nil || !ptr.Deref(s.data.Status.Ready, false) {
		return nil, nil, false
	}
	if metaData == nil {
		metaData = inNamespace(s.data.Spec.MetaData, namespace)
	}
	if networkData == nil {
		networkData = inNamespace(s.data.Spec.NetworkData, namespace)
	}
	return metaData, networkData, true
}

func dataError(s *scope) string {
	switch {
	case s.data != nil && s.data.Status.ErrorMessage != "":
		return fmt.Sprintf("Metal3Data %s: %s", s.data.Name, s.data.Status.ErrorMessage)
	case s.claim.Status.ErrorMessage != "":
		return fmt.Sprintf("Metal3DataClaim %s: %s", s.claim.Name, s.claim.Status.ErrorMessage)
	default:
		return ""
	}
}

// provisionHost hands the host what it should run, and waits for the host operator.
func (r *Reconciler) provisionHost(ctx context.Context, s *scope) (outcome.Outcome, error) {
	stored, err := r.Hosts.Write(ctx, s.host, host.Desired(s.host, desiredClaim(s)))
	if err != nil {
		return outcome.Done(), err
	}
	s.host = stored
	if s.machine.Spec.ProviderID != "" && host.Arrived(s.host) {
		// The provider ID was published when the host was provisioned, and it came here with the machine.
		return s.record(infrav1.HostProvisionedCondition, outcome.Done()), nil
	}
	return s.record(infrav1.HostProvisionedCondition, host.Progress(s.host)), nil
}

// releaseData lets go of the claim for data.
func (r *Reconciler) releaseData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.claim == nil || !metav1.IsControlledBy(s.claim, s.machine) {
		return outcome.Done(), nil
	}
	if controllerutil.ContainsFinalizer(s.claim, infrav1.MachineFinalizer) {
		before := s.claim.DeepCopy()
		controllerutil.RemoveFinalizer(s.claim, infrav1.MachineFinalizer)
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		if err := r.Client.Patch(ctx, s.claim, patch); client.IgnoreNotFound(err) != nil {
			return outcome.Done(), fmt.Errorf("letting go of the data of %s: %w", s.machine.Name, err)
		}
	}
	if err := r.Client.Delete(ctx, s.claim); client.IgnoreNotFound(err) != nil {
		return outcome.Done(), fmt.Errorf("letting go of the data of %s: %w", s.machine.Name, err)
	}
	return outcome.Done(), nil
}
