// Package build returns objects for tests: build.Host("host-0", build.Available(), build.InDomain("a")).
//
// An object is valid without options, so that a test names only relevant fields. The same arguments give the same
// object. The compiler refuses an option for another kind.
//
// The package has options for common fields only. A test sets other fields on the object.
package build

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"

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

// DefaultNamespace is the namespace of objects without InNamespace.
const DefaultNamespace = "metal3"

// Scheme returns a scheme with all kinds that the provider uses. It is a new one each time, so that a test may extend
// it.
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

// SharedScheme returns a scheme with the same kinds, always the same one: nobody may extend it. A new one takes ten
// milliseconds with the race detector.
var SharedScheme = sync.OnceValue(Scheme)

// ObjectOption is an option for objects of every kind.
type ObjectOption func(metav1.Object)

// InNamespace sets the namespace.
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

// OwnedBy adds a controller reference. With a real API server, the owner must exist, because the reference has its UID.
func OwnedBy(owner client.Object) ObjectOption {
	return func(object metav1.Object) {
		kind, err := apiutil.GVKForObject(owner, SharedScheme())
		if err != nil {
			panic(fmt.Sprintf("an owner must be of a kind of the scheme: %v", err))
		}
		object.SetOwnerReferences(append(object.GetOwnerReferences(), *metav1.NewControllerRef(owner, kind)))
	}
}

// CreateWithStatus creates an object and then writes its status, which the API server ignores at the creation. It
// stores the response in the object.
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
