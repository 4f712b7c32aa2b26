package issuer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// Reasons of the condition Ready.
const (
	reasonIssuerReady  = "IsReady"
	reasonUnsupported  = "Unsupported"
	reasonInvalid      = "Invalid"
	reasonNoAuthority  = "ErrGetKeyPair"
	reasonIssuerAbsent = "IssuerNotFound"
	reasonReady        = "Ready"
)

// issuerReconciler reports whether issuers of one kind can sign.
type issuerReconciler struct {
	client client.Client
	secret client.Reader
	kind   string
}

func (r *issuerReconciler) setup(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named(r.kind).
		For(newObject(r.kind)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.users)).
		Complete(r)
}

// users returns the issuers that may read a Secret.
func (r *issuerReconciler) users(ctx context.Context, secret client.Object) []ctrl.Request {
	if r.kind == clusterIssuerKind {
		if secret.GetNamespace() != Namespace {
			return nil
		}
		return requests(ctx, r.client, r.kind)
	}
	return requests(ctx, r.client, r.kind, client.InNamespace(secret.GetNamespace()))
}

// Reconcile writes the condition Ready.
func (r *issuerReconciler) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := newObject(r.kind)
	if err := r.client.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	_, why, err := readIssuer(ctx, r.secret, object)
	if err != nil {
		return ctrl.Result{}, err
	}
	condition := ready(object, reasonIssuerReady, "The issuer can sign.", why)
	return ctrl.Result{}, writeStatus(ctx, r.client, object, condition, nil)
}

// readIssuer returns the authority of an issuer. A nil authority means self-signed certificates.
func readIssuer(ctx context.Context, secrets client.Reader, object *unstructured.Unstructured) (
	*authority, *problem, error,
) {
	var spec issuerSpec
	if err := readSpec(object, &spec); err != nil {
		return nil, problemf(reasonUnsupported, "%v", err), nil
	}
	if spec.SelfSigned != nil {
		return nil, nil, nil
	}
	if spec.CA == nil {
		return nil, problemf(reasonInvalid, "%s %s names no way to sign: set spec.selfSigned or spec.ca",
			object.GetKind(), object.GetName()), nil
	}
	key := client.ObjectKey{Namespace: object.GetNamespace(), Name: spec.CA.SecretName}
	if key.Namespace == "" {
		key.Namespace = Namespace
	}
	var secret corev1.Secret
	switch err := secrets.Get(ctx, key, &secret); {
	case apierrors.IsNotFound(err):
		return nil, problemf(reasonNoAuthority, "Secret %s, which spec.ca names, does not exist", key), nil
	case err != nil:
		return nil, nil, err
	}
	found, err := readAuthority(&secret)
	if err != nil {
		return nil, problemf(reasonNoAuthority, "%v", err), nil
	}
	return found, nil, nil
}

// requests returns requests for the selected objects of a kind.
func requests(ctx context.Context, reader client.Reader, kind string, options ...client.ListOption) []ctrl.Request {
	list := newList(kind)
	if err := reader.List(ctx, list, options...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Unable to list", "kind", kind)
		return nil
	}
	requests := make([]ctrl.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}
