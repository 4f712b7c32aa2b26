package metal3data

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// part is one of the two Secrets of the data.
type part struct {
	// name and key of the Secret.
	name, key string

	render func(s *scope) ([]byte, error)
}

// parts returns the required Secrets of the data. Their names are in the spec of the data, or else derive from the
// template.
func parts(s *scope) []part {
	var all []part
	add := func(reference **corev1.SecretReference, wanted bool, name func(string) string, p part) {
		if wanted && *reference == nil && s.machine != nil {
			*reference = &corev1.SecretReference{Name: name(s.machine.Name), Namespace: s.data.Namespace}
		}
		if *reference != nil {
			p.name = (*reference).Name
			all = append(all, p)
		}
	}
	add(&s.data.Spec.MetaData, s.template != nil && s.template.Spec.MetaData != nil, hostdata.MetaDataSecret,
		part{key: hostdata.MetaDataKey, render: func(s *scope) ([]byte, error) {
			metaData := ptr.Deref(s.template.Spec.MetaData, infrav1.MetaData{})
			rendered, err := hostdata.MetaData(&metaData, s.subject(), s.addresses)
			if err == nil {
				s.empty = ptr.To(hostdata.EmptyValues(&metaData, s.subject()))
			}
			return rendered, err
		}})
	add(&s.data.Spec.NetworkData, s.template != nil && s.template.Spec.NetworkData != nil, hostdata.NetworkDataSecret,
		part{key: hostdata.NetworkDataKey, render: func(s *scope) ([]byte, error) {
			networkData := ptr.Deref(s.template.Spec.NetworkData, infrav1.NetworkData{})
			return hostdata.NetworkData(&networkData, s.subject(), s.addresses)
		}})
	return all
}

// findSecrets reads the Secrets and records the missing ones. If all exist, the data is rendered, even if other objects
// are missing.
func (r *Reconciler) findSecrets(ctx context.Context, s *scope) (outcome.Outcome, error) {
	all := parts(s)
	for _, p := range all {
		secret := &corev1.Secret{}
		key := client.ObjectKey{Namespace: s.data.Namespace, Name: p.name}
		err := r.Secrets.Get(ctx, key, secret)
		if apierrors.IsNotFound(err) && ptr.Deref(s.data.Status.Ready, false) {
			// The data was rendered, but the cache lacks Secrets without the label of their Cluster.
			err = r.Live.Get(ctx, key, secret)
		}
		if client.IgnoreNotFound(err) != nil {
			return outcome.Done(), fmt.Errorf("reading Secret %s: %w", p.name, err)
		}
		if err != nil || !r.usable(s, secret) {
			s.missing = append(s.missing, p)
		}
	}
	if len(s.missing) > 0 || len(all) == 0 && (s.template == nil || s.machine == nil) {
		return outcome.Done(), nil
	}
	return outcome.Done(), s.setRendered(ctx)
}

// setRendered stores the names of the Secrets before the status says that the data is ready: a machine would provision
// its host without data that the spec does not name.
func (s *scope) setRendered(ctx context.Context) error {
	if s.data.DeletionTimestamp.IsZero() {
		if err := s.pass.Save(ctx); err != nil {
			return err
		}
	}
	s.rendered = true
	return nil
}

// usable returns true for a Secret of the data or without a controller.
func (r *Reconciler) usable(s *scope, secret *corev1.Secret) bool {
	controller := metav1.GetControllerOf(secret)
	return secret.DeletionTimestamp.IsZero() && (controller == nil || controller.UID == s.data.UID)
}

// render renders all missing Secrets, and then creates them. The metric observes only the first rendering.
func (r *Reconciler) render(ctx context.Context, s *scope) (outcome.Outcome, error) {
	rendered := make([][]byte, len(s.missing))
	for i, p := range s.missing {
		var err error
		if rendered[i], err = p.render(s); err != nil {
			return outcome.Blocked(infrav1.RenderingFailedReason, problem(s, err)), nil
		}
	}
	for i, p := range s.missing {
		reached, err := r.createSecret(ctx, s, p, rendered[i])
		if err != nil || !reached.IsDone() {
			return reached, err
		}
	}
	if err := s.setRendered(ctx); err != nil {
		return outcome.Done(), err
	}
	if len(s.missing) > 0 && s.data.Status.Ready == nil {
		renderSeconds.Observe(r.Clock.Since(s.data.CreationTimestamp.Time).Seconds())
	}
	return outcome.Done(), nil
}

// createSecret creates a Secret. It does not change an existing one.
func (r *Reconciler) createSecret(ctx context.Context, s *scope, p part, content []byte) (outcome.Outcome, error) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.data.Namespace, Name: p.name,
			Labels: map[string]string{clusterv1.ClusterNameLabel: s.owner.Spec.ClusterName},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: infrav1.GroupVersion.String(), Kind: "Metal3Data",
				Name: s.data.Name, UID: s.data.UID, Controller: ptr.To(true),
			}},
		},
		Type: infrav1.DataSecretType,
		Data: map[string][]byte{p.key: content},
	}
	err := r.Client.Create(ctx, secret)
	if err == nil {
		return outcome.Done(), nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return outcome.Done(), fmt.Errorf("creating Secret %s: %w", p.name, err)
	}
	existing := &corev1.Secret{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(secret), existing); err != nil {
		return outcome.Done(), fmt.Errorf("reading Secret %s: %w", p.name, err)
	}
	if r.usable(s, existing) {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.SecretConflictReason, fmt.Sprintf(
		"Waiting for Secret %s of %s to be deleted. Delete it if no machine uses it.", p.name,
		controllerName(existing))).WithAfter(r.recheckInterval()), nil
}

func controllerName(object metav1.Object) string {
	if controller := metav1.GetControllerOf(object); controller != nil {
		return controller.Kind + " " + controller.Name
	}
	return "no other object"
}
