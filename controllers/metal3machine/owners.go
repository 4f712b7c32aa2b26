package metal3machine

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// secretDelay is the time until the next read of missing or invalid bootstrap data. Only a Secret with the label of its
// cluster causes an event.
const secretDelay = 30 * time.Second

func (r *Reconciler) waitForOwner(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.owner == nil:
		return outcome.Waiting(infrav1.WaitingForMachineReason,
			"Waiting for Cluster API to set the ownerReference of a Machine"), nil
	case s.cluster == nil:
		return outcome.Waiting(infrav1.WaitingForMachineReason, fmt.Sprintf(
			"Waiting for Cluster %s of Machine %s to exist", s.owner.Spec.ClusterName, s.owner.Name)), nil
	default:
		return outcome.Done(), nil
	}
}

// waitForInfrastructure waits for the Metal3Cluster and for the infrastructure of the Cluster.
func (r *Reconciler) waitForInfrastructure(_ context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case !s.cluster.Spec.InfrastructureRef.IsDefined():
		return outcome.Waiting(infrav1.WaitingForMetal3ClusterReason, fmt.Sprintf(
			"Waiting for spec.infrastructureRef of Cluster %s", s.cluster.Name)), nil
	case s.infra == nil:
		return outcome.Waiting(infrav1.WaitingForMetal3ClusterReason, fmt.Sprintf(
			"Waiting for Metal3Cluster %s of Cluster %s to exist", s.cluster.Spec.InfrastructureRef.Name, s.cluster.Name)), nil
	case !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false):
		return outcome.Waiting(infrav1.WaitingForInfrastructureReason, fmt.Sprintf(
			"Waiting for the infrastructure of Cluster %s to be provisioned", s.cluster.Name)), nil
	default:
		return outcome.Done(), nil
	}
}

// waitForBootstrapData waits for the bootstrap data Secret of the Machine.
func (r *Reconciler) waitForBootstrapData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.bootstrap.name == nil {
		return outcome.Waiting(infrav1.WaitingForBootstrapDataReason, fmt.Sprintf(
			"Waiting for the bootstrap provider to create the bootstrap data of Machine %s", s.owner.Name)), nil
	}
	if err := r.readBootstrapData(ctx, s); err != nil {
		return outcome.Done(), err
	}
	return bootstrapProblem(s), nil
}

func (r *Reconciler) readBootstrapData(ctx context.Context, s *scope) error {
	if *s.bootstrap.name == "" {
		return nil
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: s.machine.Namespace, Name: *s.bootstrap.name}
	err := r.Secrets.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		// The cache holds only Secrets with the label of their cluster.
		err = r.Live.Get(ctx, key, secret)
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading bootstrap data Secret %s: %w", key, err)
	}
	s.bootstrap.found = err == nil
	_, s.bootstrap.hasValue = secret.Data[valueKey]
	return nil
}

// bootstrapProblem returns the outcome for missing or invalid bootstrap data.
func bootstrapProblem(s *scope) outcome.Outcome {
	name := *s.bootstrap.name
	switch {
	case name != "" && !s.bootstrap.found:
		return outcome.Waiting(infrav1.WaitingForBootstrapDataReason, fmt.Sprintf(
			"Waiting for Secret %s with the bootstrap data of Machine %s", name, s.owner.Name)).WithAfter(secretDelay)
	case name != "" && !s.bootstrap.hasValue:
		return outcome.Blocked(infrav1.BootstrapDataInvalidReason, fmt.Sprintf(
			"Secret %s with the bootstrap data has no key \"value\". Add the key, or delete Machine %s to replace it",
			name, s.owner.Name)).WithAfter(secretDelay)
	default:
		return outcome.Done()
	}
}

// checkSpec returns blocked for an invalid spec that bypassed admission.
func (r *Reconciler) checkSpec(_ context.Context, s *scope) (outcome.Outcome, error) {
	if problem := r.SpecProblem(s.machine); problem != "" {
		return outcome.Blocked(infrav1.InvalidSpecReason, problem), nil
	}
	return outcome.Done(), nil
}
