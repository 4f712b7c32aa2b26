package metal3machine

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// claimData creates the Metal3DataClaim for spec.dataTemplate, unless a claim with this name exists. It releases a
// claim that is deleted before the host got its data.
func (r *Reconciler) claimData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.machine.Spec.DataTemplate == nil {
		return outcome.Done(), nil
	}
	existing := cmp.Or(s.claim, s.obstacle)
	if existing == nil {
		return outcome.Done(), r.createDataClaim(ctx, s)
	}
	if _, _, ready := dataSecrets(s); ready || host.IsImaged(s.host) || existing.DeletionTimestamp.IsZero() {
		return outcome.Done(), nil
	}
	if s.claim == nil {
		return r.releaseData(ctx, s)
	}
	return outcome.Done(), r.dropData(ctx, s)
}

// dropData deletes the Metal3DataClaim of a machine that must not use its data. A later reconcile creates a new claim.
func (r *Reconciler) dropData(ctx context.Context, s *scope) error {
	if s.claim == nil {
		return nil
	}
	_, err := r.releaseData(ctx, s)
	s.obstacle, s.claim, s.data = s.claim, nil, nil
	return err
}

// secretInterval is the default of Reconciler.SecretInterval.
const secretInterval = 15 * time.Second

// requireSecrets waits for the Secrets that the spec names. Without one of them, BMO provisions no host, and the host
// does not report why.
func (r *Reconciler) requireSecrets(ctx context.Context, s *scope) (outcome.Outcome, error) {
	named := map[string]*corev1.SecretReference{
		"spec.metaData": s.machine.Spec.MetaData, "spec.networkData": s.machine.Spec.NetworkData,
	}
	if ptr.Deref(s.bootstrap.name, "") == "" {
		named["spec.userData"] = s.machine.Spec.UserData
	}
	for _, field := range slices.Sorted(maps.Keys(named)) {
		reference := inNamespace(named[field], s.machine.Namespace)
		if reference == nil {
			continue
		}
		if reference.Name == "" {
			return outcome.Blocked(infrav1.InvalidSpecReason, field+".name is empty. Name a Secret, or leave out "+field), nil
		}
		secret := &metav1.PartialObjectMetadata{}
		secret.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Secret"))
		err := r.Live.Get(ctx, client.ObjectKey{Namespace: reference.Namespace, Name: reference.Name}, secret)
		if apierrors.IsNotFound(err) {
			return outcome.Waiting(infrav1.DataSecretMissingReason, fmt.Sprintf(
				"Secret %s, which %s names, does not exist. Create it", reference.Name, field)).
				WithAfter(cmp.Or(r.SecretInterval, secretInterval)), nil
		}
		if err != nil {
			return outcome.Done(), fmt.Errorf("reading Secret %s: %w", reference.Name, err)
		}
	}
	return outcome.Done(), nil
}

func (r *Reconciler) waitForData(_ context.Context, s *scope) (outcome.Outcome, error) {
	if _, _, ready := dataSecrets(s); ready {
		return outcome.Done(), nil
	}
	if s.obstacle != nil {
		return outcome.Waiting(infrav1.WaitingForDataReason, s.endOfObstacle()), nil
	}
	if message := dataError(s); message != "" {
		return outcome.Waiting(infrav1.DataFailedReason, message), nil
	}
	return outcome.Waiting(infrav1.WaitingForDataReason, fmt.Sprintf(
		"Waiting for Metal3DataTemplate %s to be rendered for Metal3DataClaim %s",
		s.machine.Spec.DataTemplate.Name, s.machine.Name)), nil
}

// endOfObstacle returns the message about a claim that the machine must not use. The machine deletes an obstacle that
// it controls.
func (s *scope) endOfObstacle() string {
	if !s.obstacle.DeletionTimestamp.IsZero() || metav1.IsControlledBy(s.obstacle, s.machine) {
		return fmt.Sprintf("Waiting for the deletion of Metal3DataClaim %s", s.obstacle.Name)
	}
	return fmt.Sprintf("Metal3Machine %s does not control Metal3DataClaim %s. Delete the Metal3DataClaim",
		s.machine.Name, s.obstacle.Name)
}

func (r *Reconciler) createDataClaim(ctx context.Context, s *scope) error {
	claim := &infrav1.Metal3DataClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.machine.Namespace,
			Name:      s.machine.Name,
			// The response of the API server may add labels to this map.
			Labels:     maps.Clone(s.machine.Labels),
			Finalizers: []string{infrav1.MachineFinalizer, infrav1.DataClaimFinalizer},
		},
		Spec: infrav1.Metal3DataClaimSpec{Template: &infrav1.Metal3ObjectRef{
			Name: s.machine.Spec.DataTemplate.Name, Namespace: s.machine.Namespace,
		}},
	}
	if err := r.own(s, claim); err != nil {
		return fmt.Errorf("creating Metal3DataClaim %s: %w", s.key(), err)
	}
	if err := r.Client.Create(ctx, claim); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating Metal3DataClaim %s: %w", s.key(), err)
	}
	s.claim = claim
	return nil
}

// own makes the machine the controller of an object. The machine has its own finalizer, so the ownerReference does not
// set blockOwnerDeletion, which requires the permission to update the finalizers of machines.
func (r *Reconciler) own(s *scope, object client.Object) error {
	return controllerutil.SetControllerReference(s.machine, object, r.Client.Scheme(),
		controllerutil.WithBlockOwnerDeletion(false))
}

// dataSecrets returns the meta-data and network-data Secrets of the host, and whether they are ready. The spec has
// precedence over rendered data.
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

// releaseData deletes the Metal3DataClaim and removes the finalizer of this controller from it. It reads the claim live
// if the cache does not show it, because an earlier reconcile may have created it.
func (r *Reconciler) releaseData(ctx context.Context, s *scope) (outcome.Outcome, error) {
	claim := cmp.Or(s.claim, s.obstacle)
	if claim == nil && s.machine.Spec.DataTemplate != nil {
		var err error
		if claim, err = flow.Find[infrav1.Metal3DataClaim](ctx, r.Live, s.key()); err != nil {
			return outcome.Done(), err
		}
	}
	if claim == nil || !releases(s.machine, claim) {
		return outcome.Done(), nil
	}
	// The controller of Metal3DataClaims releases the data of a claim that is being deleted.
	return outcome.Done(), flow.Discard(ctx, r.Client, claim, infrav1.MachineFinalizer, false)
}

// releases returns true if the machine releases a claim with its name. The claim may have lost its ownerReferences, or
// the field controller of the one to the machine. The machine then must not use the data, see ownsData, but no other
// controller releases the claim.
func releases(machine *infrav1.Metal3Machine, claim *infrav1.Metal3DataClaim) bool {
	return len(claim.OwnerReferences) == 0 ||
		slices.ContainsFunc(claim.OwnerReferences, func(owner metav1.OwnerReference) bool { return owner.UID == machine.UID })
}
