package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/bootdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/secrets"
)

const (
	// userDataSuffix is the suffix of the Secret with the injected bootstrap data.
	userDataSuffix = "-ironic-userdata"

	// valueKey and formatKey are the keys of bootstrap data in a Secret.
	valueKey  = "value"
	formatKey = "format"
)

// runsIronic returns true for a machine that runs the Ironic endpoint of its cluster: a control-plane machine with
// bootstrap data.
func (s *scope) runsIronic() bool {
	return s.infra != nil && s.infra.Spec.Ironic != nil && s.owner != nil && util.IsControlPlaneMachine(s.owner) &&
		ptr.Deref(s.bootstrap.name, "") != ""
}

// injectEndpoint injects the files of the Ironic endpoint into the bootstrap data of a control-plane machine and writes
// the result to a separate Secret.
func (r *Reconciler) injectEndpoint(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if !s.runsIronic() {
		return outcome.Done(), nil
	}
	data, result, err := r.injected(ctx, s)
	if err != nil || !result.IsDone() {
		return result, err
	}
	return r.storeUserData(ctx, s, data)
}

// injected returns the data of the Secret with the injected bootstrap data. The data is nil unless the outcome is done.
func (r *Reconciler) injected(ctx context.Context, s *scope) (map[string][]byte, outcome.Outcome, error) {
	bootstrap := &corev1.Secret{}
	err := r.Live.Get(ctx, s.named(*s.bootstrap.name), bootstrap)
	if client.IgnoreNotFound(err) != nil {
		return nil, outcome.Done(), fmt.Errorf("reading bootstrap data Secret %s: %w", *s.bootstrap.name, err)
	}
	// The cached copy may be outdated.
	s.bootstrap.found, s.bootstrap.hasValue = err == nil, bootstrap.Data[valueKey] != nil
	if problem := bootstrapProblem(s); !problem.IsDone() {
		return nil, problem, nil
	}
	material, err := r.material(ctx, s)
	if err != nil {
		return nil, outcome.Done(), err
	}
	if material == nil {
		return nil, outcome.Waiting(infrav1.WaitingForIronicSecretReason, fmt.Sprintf(
			"Waiting for Secret %s of the Ironic endpoint; see the condition %s of Metal3Cluster %s",
			secrets.Name(s.cluster.Name), infrav1.IronicEndpointReadyCondition, s.infra.Name)), nil
	}
	files, err := controlplane.Files(material.Endpoint(s.infra.Spec.Ironic, r.GuardImage))
	if err != nil {
		return nil, invalidEndpoint(s, err), nil
	}
	value, err := bootdata.Add(bootstrap.Data[valueKey], string(bootstrap.Data[formatKey]), files)
	if err != nil {
		return nil, uninjectable(s, err), nil
	}
	data := map[string][]byte{valueKey: value}
	if format, given := bootstrap.Data[formatKey]; given {
		data[formatKey] = format
	}
	return data, outcome.Done(), nil
}

// material reads the Secret of the endpoint. It returns nil while the Secret does not exist or is not complete.
func (r *Reconciler) material(ctx context.Context, s *scope) (*secrets.Material, error) {
	if s.infra.Spec.Ironic.ClusterID == "" {
		return nil, nil
	}
	secret, err := flow.Find[corev1.Secret](ctx, r.Live, s.named(secrets.Name(s.cluster.Name)))
	if secret == nil || !metav1.IsControlledBy(secret, s.infra) {
		return nil, err
	}
	material, err := secrets.Read(secret.Data)
	if err != nil {
		return nil, nil //nolint:nilerr // IronicEndpointReady of the Metal3Cluster reports it
	}
	return &material, nil
}

func invalidEndpoint(s *scope, err error) outcome.Outcome {
	return outcome.Blocked(infrav1.IronicEndpointInvalidReason, fmt.Sprintf(
		"Correct spec.ironic of Metal3Cluster %s or Secret %s: %s", s.infra.Name, secrets.Name(s.cluster.Name), err))
}

// uninjectable returns the outcome after an error of the injection.
func uninjectable(s *scope, err error) outcome.Outcome {
	var file *bootdata.InvalidFileError
	if errors.As(err, &file) {
		// Only the path of the manifests comes from the user.
		return invalidEndpoint(s, err)
	}
	var unparsable *bootdata.UnparsableError
	remedy := ""
	if errors.As(err, &unparsable) {
		remedy = "; correct the bootstrap configuration"
	}
	return outcome.Blocked(infrav1.BootstrapDataInvalidReason, fmt.Sprintf(
		"The Ironic endpoint cannot be injected into Secret %s of Machine %s: %s%s",
		*s.bootstrap.name, s.owner.Name, err, remedy)).WithAfter(secretDelay)
}

// userDataName returns the name of the Secret with the injected bootstrap data.
func userDataName(s *scope) string { return s.machine.Name + userDataSuffix }

// storeUserData creates the Secret with the injected bootstrap data, or updates it if it differs.
func (r *Reconciler) storeUserData(ctx context.Context, s *scope, data map[string][]byte) (outcome.Outcome, error) {
	current, err := flow.Find[corev1.Secret](ctx, r.Live, s.named(userDataName(s)))
	switch {
	case err != nil:
		return outcome.Done(), err
	case current == nil:
		return outcome.Done(), r.createUserData(ctx, s, data)
	}
	if !metav1.IsControlledBy(current, s.machine) {
		return outcome.Blocked(infrav1.BootstrapDataInvalidReason, fmt.Sprintf(
			"Secret %s exists, but Metal3Machine %s, which requires this name, does not own it: delete it",
			current.Name, s.machine.Name)).WithAfter(secretDelay), nil
	}
	desired := current.DeepCopy()
	desired.Data = maps.Clone(data)
	if equality.Semantic.DeepEqual(current.Data, desired.Data) {
		return outcome.Done(), nil
	}
	patch := client.MergeFromWithOptions(current, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Patch(ctx, desired, patch); err != nil {
		return outcome.Done(), fmt.Errorf("updating Secret %s: %w", current.Name, err)
	}
	return outcome.Done(), nil
}

func (r *Reconciler) createUserData(ctx context.Context, s *scope, data map[string][]byte) error {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.machine.Namespace,
			Name:      userDataName(s),
			Labels:    map[string]string{clusterv1.ClusterNameLabel: s.cluster.Name},
		},
		Type: clusterv1.ClusterSecretType,
		Data: data,
	}
	// clusterctl move and the garbage collector use the ownerReference.
	if err := r.own(s, secret); err != nil {
		return fmt.Errorf("setting the owner of Secret %s: %w", secret.Name, err)
	}
	if err := r.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("creating Secret %s: %w", secret.Name, err)
	}
	return nil
}
