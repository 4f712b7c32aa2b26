package issuer

import (
	"bytes"
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
)

// injector writes the certificate of the authority into the annotated objects of one kind.
type injector struct {
	client client.Client
	// live reads without a cache, because CRDs are large and few are required.
	live client.Reader
	kind schema.GroupVersionKind
	// empty returns an empty object of the kind.
	empty func() client.Object
	// bundles returns the CA bundles of an object.
	bundles func(client.Object) []*[]byte
}

// injectors returns an injector for each kind with webhooks.
func injectors(mgr ctrl.Manager) []*injector {
	admission := admissionregistrationv1.SchemeGroupVersion
	made := []*injector{
		{
			kind:    admission.WithKind("MutatingWebhookConfiguration"),
			empty:   func() client.Object { return &admissionregistrationv1.MutatingWebhookConfiguration{} },
			bundles: mutatingBundles,
		},
		{
			kind:    admission.WithKind("ValidatingWebhookConfiguration"),
			empty:   func() client.Object { return &admissionregistrationv1.ValidatingWebhookConfiguration{} },
			bundles: validatingBundles,
		},
		{
			kind:    apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"),
			empty:   func() client.Object { return &apiextensionsv1.CustomResourceDefinition{} },
			bundles: conversionBundles,
		},
	}
	for _, one := range made {
		one.client, one.live = mgr.GetClient(), mgr.GetAPIReader()
	}
	return made
}

func mutatingBundles(object client.Object) (found []*[]byte) {
	if configuration, ok := object.(*admissionregistrationv1.MutatingWebhookConfiguration); ok {
		for i := range configuration.Webhooks {
			found = append(found, &configuration.Webhooks[i].ClientConfig.CABundle)
		}
	}
	return found
}

func validatingBundles(object client.Object) (found []*[]byte) {
	if configuration, ok := object.(*admissionregistrationv1.ValidatingWebhookConfiguration); ok {
		for i := range configuration.Webhooks {
			found = append(found, &configuration.Webhooks[i].ClientConfig.CABundle)
		}
	}
	return found
}

// conversionBundles returns nothing for a CRD without a webhook.
func conversionBundles(object client.Object) []*[]byte {
	definition, ok := object.(*apiextensionsv1.CustomResourceDefinition)
	if !ok || definition.Spec.Conversion == nil || definition.Spec.Conversion.Webhook == nil ||
		definition.Spec.Conversion.Webhook.ClientConfig == nil {
		return nil
	}
	return []*[]byte{&definition.Spec.Conversion.Webhook.ClientConfig.CABundle}
}

func (i *injector) setup(mgr ctrl.Manager) error {
	annotated := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetAnnotations()[injectAnnotation] != ""
	})
	issuedHere := predicate.NewPredicateFuncs(func(object client.Object) bool {
		return object.GetAnnotations()[certificateAnnotation] != ""
	})
	return ctrl.NewControllerManagedBy(mgr).
		Named(i.kind.Kind).
		For(i.empty(), builder.OnlyMetadata, builder.WithPredicates(annotated)).
		WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(i.readers),
			builder.WithPredicates(issuedHere)).
		Complete(i)
}

// readers returns the objects with an annotation for the Certificate of a Secret.
func (i *injector) readers(ctx context.Context, secret client.Object) []ctrl.Request {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(i.kind)
	if err := i.client.List(ctx, list); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Unable to list", "kind", i.kind.Kind)
		return nil
	}
	wanted := secret.GetNamespace() + "/" + secret.GetAnnotations()[certificateAnnotation]
	var requests []ctrl.Request
	for _, item := range list.Items {
		if item.Annotations[injectAnnotation] == wanted {
			requests = append(requests, ctrl.Request{NamespacedName: client.ObjectKey{Name: item.Name}})
		}
	}
	return requests
}

// Reconcile injects the certificate of the authority if it exists and differs. The event of a missing Secret enqueues
// the object.
func (i *injector) Reconcile(ctx context.Context, request ctrl.Request) (ctrl.Result, error) {
	object := i.empty()
	if err := i.live.Get(ctx, request.NamespacedName, object); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	bundle, err := i.bundle(ctx, object.GetAnnotations()[injectAnnotation])
	if bundle == nil || err != nil {
		return ctrl.Result{}, err
	}
	before, ok := object.DeepCopyObject().(client.Object)
	if !ok {
		return ctrl.Result{}, fmt.Errorf("%T is not an object", object)
	}
	changed := false
	for _, place := range i.bundles(object) {
		changed = changed || !bytes.Equal(*place, bundle)
		*place = bundle
	}
	if !changed {
		return ctrl.Result{}, nil
	}
	// A patch replaces the whole list of webhooks, so it requires the version that was read.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := i.client.Patch(ctx, object, patch); err != nil {
		return ctrl.Result{}, fmt.Errorf("injecting the authority into %s: %w", request.Name, err)
	}
	return ctrl.Result{}, nil
}

// bundle returns the certificate of the authority of a Certificate, or nil.
func (i *injector) bundle(ctx context.Context, reference string) ([]byte, error) {
	namespace, name, found := strings.Cut(reference, "/")
	if !found {
		ctrl.LoggerFrom(ctx).Info("The annotation "+injectAnnotation+" must be namespace/name", "value", reference)
		return nil, nil
	}
	object := newObject(certificateKind)
	if err := i.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	spec, why := readCertificate(object)
	if why != nil {
		return nil, nil // The condition of the Certificate reports it.
	}
	var secret corev1.Secret
	if err := i.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: spec.SecretName}, &secret); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	if secret.Annotations[certificateAnnotation] != name {
		return nil, nil
	}
	return secret.Data[authorityKey], nil
}
