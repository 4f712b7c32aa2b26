package v1beta1_test

import (
	"context"
	"encoding/json"
	"reflect"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"

	"github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// kind is one kind in both versions, with the converter that a conversion webhook uses.
type kind struct {
	name       string
	spoke, hub func() client.Object
	converter  conversion.Converter
}

// kinds returns all kinds by name.
func kinds(t *testing.T) map[string]kind {
	t.Helper()
	scheme := scheme(t)
	all := map[string]kind{}
	for _, one := range []kind{
		newKind(t, scheme, v1beta1.ConvertMetal3ClusterToHub, v1beta1.ConvertMetal3ClusterFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3ClusterTemplateToHub, v1beta1.ConvertMetal3ClusterTemplateFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3DataToHub, v1beta1.ConvertMetal3DataFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3DataClaimToHub, v1beta1.ConvertMetal3DataClaimFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3DataTemplateToHub, v1beta1.ConvertMetal3DataTemplateFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3MachineToHub, v1beta1.ConvertMetal3MachineFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3MachineTemplateToHub, v1beta1.ConvertMetal3MachineTemplateFromHub),
		newKind(t, scheme, v1beta1.ConvertMetal3RemediationToHub, v1beta1.ConvertMetal3RemediationFromHub),
		newKind(t, scheme,
			v1beta1.ConvertMetal3RemediationTemplateToHub, v1beta1.ConvertMetal3RemediationTemplateFromHub),
	} {
		all[one.name] = one
	}
	return all
}

func newKind[S, H client.Object](
	t *testing.T, scheme *runtime.Scheme,
	toHub func(context.Context, S, H) error, fromHub func(context.Context, H, S) error,
) kind {
	t.Helper()
	spoke, hub := empty[S](t), empty[H](t)
	name := reflect.TypeOf(spoke).Elem().Name()
	converter, err := conversion.NewHubSpokeConverter(hub, conversion.NewSpokeConverter(spoke, fromHub, toHub))(scheme)
	if err != nil {
		t.Fatalf("creating the converter of %s: %v", name, err)
	}
	return kind{
		name: name,
		spoke: func() client.Object {
			object := empty[S](t)
			object.GetObjectKind().SetGroupVersionKind(v1beta1.GroupVersion.WithKind(name))
			return object
		},
		hub: func() client.Object {
			object := empty[H](t)
			object.GetObjectKind().SetGroupVersionKind(infrav1.GroupVersion.WithKind(name))
			return object
		},
		converter: converter,
	}
}

// empty returns a new object of a pointer type.
func empty[T client.Object](t *testing.T) T {
	t.Helper()
	made, matches := reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T)
	if !matches {
		t.Fatalf("%T is no pointer", made)
	}
	return made
}

// toHub converts as a webhook does, through JSON.
func (k kind) toHub(t *testing.T, spoke client.Object) client.Object {
	t.Helper()
	return transcribe(t, k.convert(t, spoke, k.hub()), k.hub())
}

// toSpoke converts as a webhook does, through JSON.
func (k kind) toSpoke(t *testing.T, hub client.Object) client.Object {
	t.Helper()
	return transcribe(t, k.convert(t, hub, k.spoke()), k.spoke())
}

func (k kind) convert(t *testing.T, from, to client.Object) client.Object {
	t.Helper()
	if err := k.converter.ConvertObject(t.Context(), from, to); err != nil {
		t.Fatalf("converting %s: %v", k.name, err)
	}
	return to
}

// is checks the type of an object.
func is[T client.Object](t *testing.T, object client.Object) T {
	t.Helper()
	typed, matches := object.(T)
	if !matches {
		t.Fatalf("the object is a %T", object)
	}
	return typed
}

// transcribe writes an object as JSON and reads it into another.
func transcribe[T any](t *testing.T, from any, to T) T {
	t.Helper()
	if err := json.Unmarshal(encode(t, from), to); err != nil {
		t.Fatalf("reading %T: %v", to, err)
	}
	return to
}

func encode(t *testing.T, value any) []byte {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatalf("writing %T: %v", value, err)
	}
	return data
}

// unstructuredOf returns the object as decoded by an API server: whole numbers are integers.
func unstructuredOf(t *testing.T, object any) map[string]any {
	t.Helper()
	var fields map[string]any
	if err := utiljson.Unmarshal(encode(t, object), &fields); err != nil {
		t.Fatalf("reading %T: %v", object, err)
	}
	return fields
}
