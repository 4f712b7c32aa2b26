package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// bmoLabel is the label that the Baremetal Operator (BMO) sets on all Secrets that it reads.
const bmoLabel = "environment.metal3.io"

// Keeper manages the Secrets of endpoints. All fields are required.
type Keeper struct {
	// Client reads Secrets with their values, without the cache, which omits them.
	Client client.Client

	// Random is the source of passwords and serial numbers. The standard library does not use it for keys.
	Random io.Reader

	// Clock is the time for the validity of certificates.
	Clock clock.PassiveClock

	// Hash returns the hash of a password for a htpasswd, with its own salt.
	Hash func(password []byte) ([]byte, error)
}

// content is the data of a Secret. Nil data means that the Secret does not exist, or that none is named.
type content struct {
	name string
	data map[string][]byte

	// secret is the Secret that the user named. Nil if none is named.
	secret *corev1.Secret
}

// UnownedError is the error for Secrets of the user that the Metal3Cluster may not own. Their values are used all the
// same.
type UnownedError struct{ Cause error }

// Error implements error.
func (u *UnownedError) Error() string { return u.Cause.Error() }

// Unwrap returns the cause.
func (u *UnownedError) Unwrap() error { return u.Cause }

// Ensure completes the Secret of a Metal3Cluster with spec.ironic, and returns its material. The outcome is done when
// the material may be used, waiting for a Secret that spec.ironic names, and blocked if the user must correct a Secret.
// The material is set only when done, also with an UnownedError. The hosts are those of the namespace: Ensure uses no
// credentials of their BMCs.
func (k *Keeper) Ensure(
	ctx context.Context, owner *infrav1.Metal3Cluster, cluster string, hosts []*bmov1alpha1.BareMetalHost,
) (Material, outcome.Outcome, error) {
	material, err := k.ensure(ctx, owner, cluster, hosts)
	var wrong *problem
	var absent *absence
	var unowned *UnownedError
	switch {
	case errors.As(err, &wrong):
		return Material{}, outcome.Blocked(infrav1.IronicSecretInvalidReason, wrong.message), nil
	case errors.As(err, &absent):
		return Material{}, outcome.Waiting(infrav1.WaitingForIronicSecretReason, absent.Error()), nil
	case errors.As(err, &unowned):
		return material, outcome.Done(), err
	case err != nil:
		return Material{}, outcome.Done(), fmt.Errorf("keeping the Secret of Ironic endpoint %s: %w", owner.Name, err)
	default:
		return material, outcome.Done(), nil
	}
}

// Find returns the material in the Secret of a Metal3Cluster that is being deleted. It creates and changes nothing.
func (k *Keeper) Find(
	ctx context.Context, owner *infrav1.Metal3Cluster, cluster string,
) (Material, outcome.Outcome, error) {
	secret, err := k.stored(ctx, owner.Namespace, cluster)
	if err != nil {
		return Material{}, outcome.Done(), err
	}
	material, err := Read(secret.Data)
	if err != nil {
		return Material{}, outcome.Waiting(infrav1.WaitingForIronicSecretReason, fmt.Sprintf("Secret %s with the "+
			"credentials of the Ironic endpoint is missing or incomplete, and is not created during a deletion: restore it "+
			"from a backup, or unpause paused BareMetalHosts with clusterctl metal3 pivot unpause --host", Name(cluster))), nil
	}
	return material, outcome.Done(), nil
}

// absence is the error for a Secret that spec.ironic names and that does not exist.
type absence struct{ name, field string }

// Error implements error.
func (a *absence) Error() string {
	return fmt.Sprintf("Waiting for Secret %s, which spec.ironic.%s names", a.name, a.field)
}

func (k *Keeper) ensure(
	ctx context.Context, owner *infrav1.Metal3Cluster, cluster string, hosts []*bmov1alpha1.BareMetalHost,
) (Material, error) {
	spec := owner.Spec.Ironic
	wanted := identity{clusterID: spec.ClusterID, addresses: spec.Endpoint.VirtualIPs}
	if err := wanted.check(); err != nil {
		return Material{}, err
	}
	current, err := k.current(ctx, owner, cluster, hosts)
	if err != nil {
		return Material{}, err
	}
	found := content{name: current.Name, data: current.Data}
	givenCredentials, err := k.given(ctx, owner, cluster, hosts, reference{spec.CredentialsRef, "credentialsRef"})
	if err != nil {
		return Material{}, err
	}
	givenCertificates, err := k.given(ctx, owner, cluster, hosts, reference{spec.TLSRef, "tlsRef"})
	if err != nil {
		return Material{}, err
	}
	credentials, err := k.credentials(found, givenCredentials)
	if err != nil {
		return Material{}, err
	}
	certificates, err := k.certificates(found, givenCertificates, wanted)
	if err != nil {
		return Material{}, err
	}
	maps.Copy(credentials, certificates)
	unowned, err := k.ownGiven(ctx, owner, cluster, givenCredentials, givenCertificates)
	if err != nil {
		return Material{}, err
	}
	if err := k.store(ctx, current, owner, cluster, credentials); err != nil {
		return Material{}, err
	}
	material, err := Read(credentials)
	material.Renewal = beforeEnd(givenCertificates.name, current.Name, credentials)
	if err == nil && unowned != nil {
		err = &UnownedError{Cause: unowned}
	}
	return material, err
}

// stored reads the Secret of the cluster. A Secret that does not exist has no resource version.
func (k *Keeper) stored(ctx context.Context, namespace, cluster string) (*corev1.Secret, error) {
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: namespace, Name: Name(cluster)}
	err := k.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}, Type: clusterv1.ClusterSecretType,
		}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading Secret %s: %w", key.Name, err)
	}
	return secret, nil
}

// current reads the Secret of the cluster, and refuses that of another owner and one that BMO uses.
func (k *Keeper) current(
	ctx context.Context, owner *infrav1.Metal3Cluster, cluster string, hosts []*bmov1alpha1.BareMetalHost,
) (*corev1.Secret, error) {
	secret, err := k.stored(ctx, owner.Namespace, cluster)
	if err != nil {
		return nil, err
	}
	if other := metav1.GetControllerOf(secret); other != nil && other.UID != owner.UID {
		return nil, problemf("Secret %s belongs to %s %s, but Metal3Cluster %s requires this name: remove the Secret",
			secret.Name, other.Kind, other.Name, owner.Name)
	} else if use := useOfBMO(secret, hosts); other == nil && use != "" {
		return nil, problemf("Secret %s %s, but Metal3Cluster %s requires this name: give the Secret of the host another "+
			"name", secret.Name, use, owner.Name)
	}
	return secret, nil
}

// reference is a Secret that a field of spec.ironic names. Without a name, its values are generated.
type reference struct {
	*corev1.LocalObjectReference
	field string
}

// given reads a Secret that the user named. It refuses a Secret that BMO uses: a user who may not read the credentials
// of a BMC could otherwise send them to a VIP.
func (k *Keeper) given(
	ctx context.Context, owner *infrav1.Metal3Cluster, cluster string, hosts []*bmov1alpha1.BareMetalHost, from reference,
) (content, error) {
	if from.LocalObjectReference == nil || from.Name == "" || from.Name == Name(cluster) {
		return content{}, nil
	}
	secret := &corev1.Secret{}
	err := k.Client.Get(ctx, client.ObjectKey{Namespace: owner.Namespace, Name: from.Name}, secret)
	if apierrors.IsNotFound(err) {
		return content{}, &absence{from.Name, from.field}
	}
	if err != nil {
		return content{}, fmt.Errorf("reading Secret %s: %w", from.Name, err)
	}
	if use := useOfBMO(secret, hosts); use != "" {
		return content{}, problemf("Secret %s, which spec.ironic.%s names, %s: name a Secret that the Baremetal Operator "+
			"does not use", from.Name, from.field, use)
	}
	result := content{name: from.Name, data: secret.Data, secret: secret}
	if result.data == nil {
		result.data = map[string][]byte{}
	}
	return result, nil
}

// useOfBMO returns the use of a Secret by BMO, empty if there is none. BMO sets the host as an owner of the credentials
// of its BMC, and the label on all Secrets that it reads, once it reconciles the host.
func useOfBMO(secret *corev1.Secret, hosts []*bmov1alpha1.BareMetalHost) string {
	for _, owner := range secret.OwnerReferences {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if owner.Kind == "BareMetalHost" && group == bmov1alpha1.GroupVersion.Group {
			return "is owned by BareMetalHost " + owner.Name
		}
	}
	if metav1.HasLabel(secret.ObjectMeta, bmoLabel) {
		return "has the label " + bmoLabel
	}
	for _, host := range hosts {
		if host.Spec.BMC.CredentialsName == secret.Name {
			return "is spec.bmc.credentialsName of BareMetalHost " + host.Name
		}
	}
	return ""
}

// ownGiven adds the owner with which the Secrets of the user move with the cluster. Their values must be valid: the
// garbage collector deletes such a Secret with its last owner. Unowned is the error of an API server that refuses the
// owner.
func (k *Keeper) ownGiven(
	ctx context.Context, owner *infrav1.Metal3Cluster, cluster string, given ...content,
) (unowned, err error) {
	given = slices.CompactFunc(given, func(a, b content) bool { return a.name == b.name })
	for _, from := range given {
		if from.secret == nil || !lacksOwner(from.secret.OwnerReferences, owner.UID) {
			continue
		}
		err := k.own(ctx, from.secret, owner, cluster)
		if err != nil && !apierrors.IsForbidden(err) {
			return nil, err
		}
		unowned = errors.Join(unowned, err)
	}
	return unowned, nil
}

// lacksOwner returns true if a Metal3Cluster must become an owner of a Secret that it names. The first row that matches
// counts.
//
//	the Secret is owned by           becomes an owner
//	this Metal3Cluster, with others  no: it is an owner
//	anything but Metal3Clusters      no: the Secret moves with that owner, or does not move
//	none                             yes: clusterctl moves the dependents of moved objects
//	other Metal3Clusters             yes: otherwise the Secret is deleted with the last of those
func lacksOwner(owners []metav1.OwnerReference, uid types.UID) bool {
	for _, owner := range owners {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if owner.UID == uid || owner.Kind != "Metal3Cluster" || group != infrav1.GroupVersion.Group {
			return false
		}
	}
	return true
}

// own adds the Metal3Cluster as an owner of a Secret of the user. Others may be owners too, so none is a controller.
func (k *Keeper) own(ctx context.Context, secret *corev1.Secret, owner *infrav1.Metal3Cluster, cluster string) error {
	before := secret.DeepCopy()
	if err := controllerutil.SetOwnerReference(owner, secret, k.Client.Scheme()); err != nil {
		return fmt.Errorf("owning Secret %s: %w", secret.Name, err)
	}
	if secret.Labels[clusterv1.ClusterNameLabel] == "" {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, clusterv1.ClusterNameLabel, cluster)
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := k.Client.Patch(ctx, secret, patch)
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("owning Secret %s, which requires the permission to delete Secrets where the API server guards "+
			"owners: %w", before.Name, err)
	case err != nil:
		return fmt.Errorf("owning Secret %s: %w", before.Name, err)
	}
	return nil
}

// blocksDeletion returns the value of blockOwnerDeletion for the Secret of the cluster. A new Secret has false: some
// API servers permit true only to users that may write finalizers of the owner. An existing true stays: the same API
// servers permit a change of owners only to users that may delete the Secret.
func blocksDeletion(current *corev1.Secret, uid types.UID) bool {
	controller := metav1.GetControllerOf(current)
	return controller != nil && controller.UID == uid && ptr.Deref(controller.BlockOwnerDeletion, false)
}

// store writes the Secret if it differs. It keeps keys of other writers.
func (k *Keeper) store(
	ctx context.Context, current *corev1.Secret, owner *infrav1.Metal3Cluster, cluster string, data map[string][]byte,
) error {
	desired := current.DeepCopy()
	blocks := controllerutil.WithBlockOwnerDeletion(blocksDeletion(current, owner.UID))
	if err := controllerutil.SetControllerReference(owner, desired, k.Client.Scheme(), blocks); err != nil {
		return fmt.Errorf("owning Secret %s: %w", desired.Name, err)
	}
	metav1.SetMetaDataLabel(&desired.ObjectMeta, clusterv1.ClusterNameLabel, cluster)
	if desired.Data == nil {
		desired.Data = map[string][]byte{}
	}
	if owner.Spec.Ironic.TLSRef != nil && data[AuthorityKeyKey] == nil {
		// The key of a generated authority is not used with the authority of the user.
		delete(desired.Data, AuthorityKeyKey)
	}
	maps.Copy(desired.Data, data)
	switch {
	case current.ResourceVersion == "":
		if err := k.Client.Create(ctx, desired); err != nil {
			return fmt.Errorf("creating Secret %s: %w", desired.Name, err)
		}
	case !equality.Semantic.DeepEqual(current, desired):
		patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
		if err := k.Client.Patch(ctx, desired, patch); err != nil {
			return fmt.Errorf("completing Secret %s: %w", desired.Name, err)
		}
	}
	return nil
}
