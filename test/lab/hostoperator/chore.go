package hostoperator

import (
	"context"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// do does the chore of a step.
func (r *Reconciler) do(ctx context.Context, seen step.Seen, next *step.Step) error {
	var err error
	switch next.Chore {
	case step.NoChore:
		return nil
	case step.ClaimSecret:
		err = r.claimSecret(ctx, seen.Host, seen.Secret)
	case step.ReleaseSecret:
		err = r.change(ctx, seen.Secret, func() error {
			controllerutil.RemoveFinalizer(seen.Secret, step.SecretFinalizer)
			return nil
		})
	case step.RecordHardware:
		err = r.recordHardware(ctx, next.Host)
	case step.ReleaseHardware:
		err = r.change(ctx, seen.Hardware, func() error {
			controllerutil.RemoveFinalizer(seen.Hardware, step.HardwareFinalizer)
			return nil
		})
	default:
		return fmt.Errorf("nobody knows the chore %q", next.Chore)
	}
	if err != nil {
		return fmt.Errorf("chore for the host, %s: %w", next.Chore, err)
	}
	return nil
}

// claimSecret makes the host an owner, so that the Secret moves and goes with it.
func (r *Reconciler) claimSecret(ctx context.Context, host *bmov1alpha1.BareMetalHost, secret *corev1.Secret) error {
	return r.change(ctx, secret, func() error {
		metav1.SetMetaDataLabel(&secret.ObjectMeta, step.SecretLabel, step.SecretLabelValue)
		controllerutil.AddFinalizer(secret, step.SecretFinalizer)
		return controllerutil.SetOwnerReference(host, secret, r.Client.Scheme())
	})
}

func (r *Reconciler) recordHardware(ctx context.Context, host *bmov1alpha1.BareMetalHost) error {
	data := &bmov1alpha1.HardwareData{ObjectMeta: metav1.ObjectMeta{Namespace: host.Namespace, Name: host.Name}}
	_, err := controllerutil.CreateOrUpdate(ctx, r.Client, data, func() error {
		data.Spec.HardwareDetails = host.Status.HardwareDetails.DeepCopy()
		controllerutil.AddFinalizer(data, step.HardwareFinalizer)
		return controllerutil.SetControllerReference(host, data, r.Client.Scheme())
	})
	return err
}

// change writes what a function changes of an object, unless somebody else changed the object meanwhile.
func (r *Reconciler) change(ctx context.Context, object client.Object, how func() error) error {
	// Every object of a kind in Kubernetes can be copied into an object.
	before := object.DeepCopyObject().(client.Object) //nolint:errcheck,forcetypeassert // See above.
	if err := how(); err != nil {
		return err
	}
	return r.Client.Patch(ctx, object, lockedPatch(before))
}

// readData reads what the config drive of a host is made of.
func (r *Reconciler) readData(ctx context.Context, host *bmov1alpha1.BareMetalHost) (step.Data, error) {
	network := host.Spec.NetworkData
	if network == nil && host.Spec.PreprovisioningNetworkDataName != "" {
		network = &corev1.SecretReference{Name: host.Spec.PreprovisioningNetworkDataName}
	}
	var data step.Data
	for _, source := range []struct {
		from     *corev1.SecretReference
		key      string
		to       *string
		optional bool
	}{
		{from: host.Spec.UserData, key: "userData", to: &data.User},
		// As with the original, a Secret without network data means that there are none.
		{from: network, key: "networkData", to: &data.Network, optional: true},
		{from: host.Spec.MetaData, key: "metaData", to: &data.Meta},
	} {
		if source.from == nil {
			continue
		}
		text, found, err := r.readSecret(ctx, host, source.from, source.key)
		if err != nil {
			return step.Data{}, fmt.Errorf("reading the %s of the host: %w", source.key, err)
		}
		if !found && !source.optional {
			return step.Data{}, fmt.Errorf("the Secret %s/%s holds neither the key %s nor the key value",
				host.Namespace, source.from.Name, source.key)
		}
		*source.to = text
	}
	return data, nil
}

// readSecret reads one key of a Secret, or the key "value", and labels the Secret as one that hosts use.
func (r *Reconciler) readSecret(
	ctx context.Context, host *bmov1alpha1.BareMetalHost, from *corev1.SecretReference, key string,
) (string, bool, error) {
	if from.Namespace != "" && from.Namespace != host.Namespace {
		return "", false, fmt.Errorf("the Secret %s/%s has to be in the namespace of the host", from.Namespace, from.Name)
	}
	secret := &corev1.Secret{}
	if err := r.Client.Get(ctx, types.NamespacedName{Namespace: host.Namespace, Name: from.Name}, secret); err != nil {
		return "", false, err
	}
	if !metav1.HasLabel(secret.ObjectMeta, step.SecretLabel) {
		err := r.change(ctx, secret, func() error {
			metav1.SetMetaDataLabel(&secret.ObjectMeta, step.SecretLabel, step.SecretLabelValue)
			return nil
		})
		if err != nil {
			return "", false, err
		}
	}
	for _, name := range []string{key, "value"} {
		if content, found := secret.Data[name]; found {
			return string(content), true, nil
		}
	}
	return "", false, nil
}
