// Package build makes the objects that tests start from: build.Host("host-0", build.Available(), build.InDomain("a")).
//
// An object is valid as it comes, so that a test names only what it is about, and the same arguments give the same
// object. An option that suits several kinds is one function; the compiler refuses it where it makes no sense.
//
// It refuses to cover every field. What no option sets, a test sets on the object that it got.
package build

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	controlplanev1 "sigs.k8s.io/cluster-api/api/controlplane/kubeadm/v1beta2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// DefaultNamespace is where objects lie unless InNamespace says otherwise.
const DefaultNamespace = "metal3"

// Scheme knows all kinds that the provider meets. It is a new one each time, so that a test may add to it.
func Scheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme,
		apiextensionsv1.AddToScheme,
		clusterv1.AddToScheme,
		bootstrapv1.AddToScheme,
		controlplanev1.AddToScheme,
		ipamv1.AddToScheme,
		metal3ipamv1.AddToScheme,
		bmov1alpha1.AddToScheme,
		infrav1.AddToScheme,
		infrav1beta1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			panic(fmt.Sprintf("the kinds contradict one another: %v", err))
		}
	}
	return scheme
}

// ObjectOption suits objects of every kind.
type ObjectOption func(metav1.Object)

// InNamespace puts the object into a namespace.
func InNamespace(namespace string) ObjectOption {
	return func(object metav1.Object) { object.SetNamespace(namespace) }
}

// Labels adds labels.
func Labels(labels map[string]string) ObjectOption {
	return func(object metav1.Object) { object.SetLabels(merge(object.GetLabels(), labels)) }
}

// Annotations adds annotations.
func Annotations(annotations map[string]string) ObjectOption {
	return func(object metav1.Object) { object.SetAnnotations(merge(object.GetAnnotations(), annotations)) }
}

// Finalizers adds finalizers.
func Finalizers(finalizers ...string) ObjectOption {
	return func(object metav1.Object) { object.SetFinalizers(append(object.GetFinalizers(), finalizers...)) }
}

// OwnedBy makes the object owned by another, which controls it. The owner must exist already where a real API server is
// involved, because its UID goes into the reference.
func OwnedBy(owner client.Object) ObjectOption {
	return func(object metav1.Object) {
		kind, err := apiutil.GVKForObject(owner, Scheme())
		if err != nil {
			panic(fmt.Sprintf("an owner must be of a kind of the scheme: %v", err))
		}
		object.SetOwnerReferences(append(object.GetOwnerReferences(), *metav1.NewControllerRef(owner, kind)))
	}
}

// CreateWithStatus creates an object and then writes the status that it was given, which the API server ignores at the
// creation. The object holds the answer afterwards.
func CreateWithStatus(ctx context.Context, c client.Client, object client.Object) error {
	encoded, err := json.Marshal(object)
	if err != nil {
		return err
	}
	var wanted struct {
		Status json.RawMessage `json:"status,omitempty"`
	}
	if err := json.Unmarshal(encoded, &wanted); err != nil {
		return err
	}
	name := client.ObjectKeyFromObject(object)
	if err := c.Create(ctx, object); err != nil {
		return fmt.Errorf("creating %T %s: %w", object, name, err)
	}
	if wanted.Status == nil {
		return nil
	}
	patch, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, object, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("writing the status of %T %s: %w", object, name, err)
	}
	return nil
}

func merge(into, from map[string]string) map[string]string {
	if into == nil {
		into = map[string]string{}
	}
	maps.Copy(into, from)
	return into
}

func meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: DefaultNamespace}
}
