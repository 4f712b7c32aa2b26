package issuer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// certificateReconciler maintains the Secrets of Certificates.
type certificateReconciler struct {
	client client.Client
	secret client.Reader
	now    func() time.Time
}

func (r *certificateReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(certificateKind).
		For(newObject(certificateKind)).
		Watches(newObject(issuerKind), handler.EnqueueRequestsFromMapFunc(r.neighbours)).
		Watches(newObject(clusterIssuerKind), handler.EnqueueRequestsFromMapFunc(r.neighbours)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.neighbours)).
		Complete(r)
}

// neighbours returns the Certificates of a namespace, or all for a cluster-wide object. They are few, and a reconcile
// of a valid one writes nothing.
func (r *certificateReconciler) neighbours(ctx context.Context, object client.Object) []ctrl.Request {
	namespace := object.GetNamespace()
	if namespace == Namespace {
		namespace = metav1.NamespaceAll
	}
	return requests(ctx, r.client, certificateKind, client.InNamespace(namespace))
}

// Reconcile signs a certificate if required, and sets the condition Ready.
func (r *certificateReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := newObject(certificateKind)
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	if !object.GetDeletionTimestamp().IsZero() {
		return ctrl.Result{}, nil
	}
	spec, why := readCertificate(object)
	var made issued
	var err error
	if why == nil {
		if made, why, err = r.ensure(ctx, request.NamespacedName, spec); err != nil {
			return ctrl.Result{}, err
		}
	}
	condition := ready(object, reasonReady, "The certificate is up to date.", why)
	err = writeStatus(ctx, r.client, object, condition, made.status())
	if err != nil || why != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: max(made.renewAt.Sub(r.now()), time.Second)}, nil
}

// issued describes a signed certificate.
type issued struct {
	notBefore, notAfter, renewAt time.Time
}

// status returns the fields of the status, or nil without a certificate.
func (i issued) status() map[string]any {
	if i.notAfter.IsZero() {
		return nil
	}
	return map[string]any{
		"notBefore":   i.notBefore.UTC().Format(time.RFC3339),
		"notAfter":    i.notAfter.UTC().Format(time.RFC3339),
		"renewalTime": i.renewAt.UTC().Format(time.RFC3339),
	}
}

// ensure signs a certificate unless the Secret has a valid one.
func (r *certificateReconciler) ensure(ctx context.Context, name client.ObjectKey, spec certificateSpec) (
	issued, *problem, error,
) {
	by, why, err := r.signer(ctx, name.Namespace, spec.issuer())
	if why != nil || err != nil {
		return issued{}, why, err
	}
	secret, err := r.read(ctx, client.ObjectKey{Namespace: name.Namespace, Name: spec.SecretName})
	if err != nil {
		return issued{}, nil, err
	}
	certificate, renewAt, stale := inspect(spec, secret, by, r.now())
	if stale == nil {
		return issued{notBefore: certificate.NotBefore, notAfter: certificate.NotAfter, renewAt: renewAt}, nil, nil
	}
	ctrl.LoggerFrom(ctx).Info("Issuing a certificate", "reason", stale.Error())
	made, err := issue(spec, secret, by, r.now())
	if err != nil {
		return issued{}, nil, err
	}
	secret, err = r.write(ctx, name, spec, secret, made)
	if err != nil {
		return issued{}, nil, err
	}
	certificate, renewAt, err = inspect(spec, secret, by, r.now())
	if err != nil {
		return issued{}, nil, fmt.Errorf("checking the certificate of %s: %w", name, err)
	}
	return issued{notBefore: certificate.NotBefore, notAfter: certificate.NotAfter, renewAt: renewAt}, nil, nil
}

func (r *certificateReconciler) signer(ctx context.Context, namespace string, reference issuerReference) (
	*authority, *problem, error,
) {
	switch {
	case reference.Group != group || (reference.Kind != issuerKind && reference.Kind != clusterIssuerKind):
		return nil, problemf(reasonUnsupported, "spec.issuerRef names a %s.%s: only %s and %s of %s sign here",
			reference.Kind, reference.Group, issuerKind, clusterIssuerKind, group), nil
	case reference.Kind == clusterIssuerKind:
		namespace = ""
	}
	object := newObject(reference.Kind)
	err := r.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: reference.Name}, object)
	if apierrors.IsNotFound(err) {
		return nil, problemf(reasonIssuerAbsent, "%s %s does not exist", reference.Kind, reference.Name), nil
	}
	if err != nil {
		return nil, nil, err
	}
	return readIssuer(ctx, r.secret, object)
}

// read returns nil for a Secret that does not exist.
func (r *certificateReconciler) read(ctx context.Context, key client.ObjectKey) (*corev1.Secret, error) {
	var secret corev1.Secret
	err := r.secret.Get(ctx, key, &secret)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return &secret, err
}

// write stores the pair in the Secret and keeps all other keys.
func (r *certificateReconciler) write(
	ctx context.Context, name client.ObjectKey, spec certificateSpec, present *corev1.Secret, made pair,
) (*corev1.Secret, error) {
	secret := &corev1.Secret{Type: corev1.SecretTypeTLS}
	if present != nil {
		secret = present.DeepCopy()
	}
	secret.Namespace, secret.Name = name.Namespace, spec.SecretName
	if secret.Annotations == nil {
		secret.Annotations = map[string]string{}
	}
	secret.Annotations[certificateAnnotation] = name.Name
	secret.Annotations[group+"/issuer-name"] = spec.IssuerRef.Name
	secret.Annotations[group+"/issuer-kind"] = spec.issuer().Kind
	if secret.Data == nil {
		secret.Data = map[string][]byte{}
	}
	secret.Data[corev1.TLSCertKey] = made.certificate
	secret.Data[corev1.TLSPrivateKeyKey] = made.key
	secret.Data[authorityKey] = made.authority
	var err error
	if present == nil {
		err = r.client.Create(ctx, secret)
	} else {
		err = r.client.Update(ctx, secret)
	}
	if err != nil {
		return nil, fmt.Errorf("writing Secret %s: %w", spec.SecretName, err)
	}
	return secret, nil
}
