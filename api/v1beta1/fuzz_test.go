package v1beta1_test

import (
	"context"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	runtimeserializer "k8s.io/apimachinery/pkg/runtime/serializer"
	"sigs.k8s.io/cluster-api/util/conversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/randfill"

	"github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// scheme returns a scheme with both versions.
func scheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{v1beta1.AddToScheme, infrav1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatalf("building the scheme: %v", err)
		}
	}
	return scheme
}

// legalValues returns fillers for types that do not accept any value.
func legalValues(runtimeserializer.CodecFactory) []any {
	return []any{
		// The bytes must be JSON.
		func(value *apiextensionsv1.JSON, random randfill.Continue) {
			values := []string{`1`, `-7`, `"text"`, `true`, `["a",{"b":2}]`, `{"nested":{"deep":1.5}}`, `""`, `{}`}
			value.Raw = []byte(values[random.Intn(len(values))])
		},
		// A pointer to the zero time is encoded as null, which an API server drops.
		func(value **metav1.Time, random randfill.Continue) {
			if random.Bool() {
				at := metav1.Unix(int64(random.Uint32()), 0).Rfc3339Copy()
				*value = &at
			}
		},
	}
}

// TestFuzz converts random objects to the other version and back.
func TestFuzz(t *testing.T) {
	t.Run("Metal3Cluster", fuzz(v1beta1.ConvertMetal3ClusterToHub, v1beta1.ConvertMetal3ClusterFromHub))
	t.Run("Metal3ClusterTemplate",
		fuzz(v1beta1.ConvertMetal3ClusterTemplateToHub, v1beta1.ConvertMetal3ClusterTemplateFromHub))
	t.Run("Metal3Data", fuzz(v1beta1.ConvertMetal3DataToHub, v1beta1.ConvertMetal3DataFromHub))
	t.Run("Metal3DataClaim", fuzz(v1beta1.ConvertMetal3DataClaimToHub, v1beta1.ConvertMetal3DataClaimFromHub))
	t.Run("Metal3DataTemplate",
		fuzz(v1beta1.ConvertMetal3DataTemplateToHub, v1beta1.ConvertMetal3DataTemplateFromHub))
	t.Run("Metal3Machine", fuzz(v1beta1.ConvertMetal3MachineToHub, v1beta1.ConvertMetal3MachineFromHub))
	t.Run("Metal3MachineTemplate",
		fuzz(v1beta1.ConvertMetal3MachineTemplateToHub, v1beta1.ConvertMetal3MachineTemplateFromHub))
	t.Run("Metal3Remediation", fuzz(v1beta1.ConvertMetal3RemediationToHub, v1beta1.ConvertMetal3RemediationFromHub))
	t.Run("Metal3RemediationTemplate",
		fuzz(v1beta1.ConvertMetal3RemediationTemplateToHub, v1beta1.ConvertMetal3RemediationTemplateFromHub))
}

func fuzz[S, H client.Object](
	toHub func(context.Context, S, H) error, fromHub func(context.Context, H, S) error,
) func(*testing.T) {
	const rounds = 1000
	return func(t *testing.T) {
		filler := conversion.GetFuzzer(scheme(t), legalValues)
		for range rounds {
			spoke, hub := empty[S](t), empty[H](t)
			filler.Fill(spoke)
			filler.Fill(hub)
			returns(t, spoke, toHub, fromHub)
			returns(t, hub, fromHub, toHub)
			if t.Failed() {
				return
			}
		}
	}
}

// returns converts an object to the other version and back.
func returns[A, B client.Object](
	t *testing.T, before A, there func(context.Context, A, B) error, back func(context.Context, B, A) error,
) {
	t.Helper()
	converted, after := empty[B](t), empty[A](t)
	if err := there(t.Context(), before, converted); err != nil {
		t.Fatalf("converting to the other version: %v", err)
	}
	if err := back(t.Context(), converted, after); err != nil {
		t.Fatalf("converting back: %v", err)
	}
	if !apiequality.Semantic.DeepEqual(before, after) {
		t.Errorf("the object changed (-before +after):\n%s", cmp.Diff(before, after))
	}
	// For managed fields, an API server also converts objects that have only metadata.
	bare := empty[B](t)
	bare.SetAnnotations(converted.GetAnnotations())
	if err := back(t.Context(), bare, empty[A](t)); err != nil {
		t.Errorf("converting metadata only: %v", err)
	}
}

// TestFuzzRepeated converts random objects repeatedly, through JSON. They have few different values, so that keys occur
// twice and numbers are at their limits. After the first conversion, neither objects nor annotations may change.
func TestFuzzRepeated(t *testing.T) {
	const rounds = 300
	for name, kind := range kinds(t) {
		t.Run(name, func(t *testing.T) {
			for seed := range int64(rounds) {
				filler := fewValues(seed)
				spoke, hub := kind.spoke(), kind.hub()
				filler.Fill(spoke)
				filler.Fill(hub)
				settles(t, transcribe(t, spoke, kind.spoke()), kind.toHub, kind.toSpoke)
				settles(t, transcribe(t, hub, kind.hub()), kind.toSpoke, kind.toHub)
				if t.Failed() {
					t.Fatalf("with seed %d", seed)
				}
			}
		})
	}
}

// settles converts an object to the other version and back, twice.
func settles(t *testing.T, first client.Object, there, back func(*testing.T, client.Object) client.Object) {
	t.Helper()
	before := first.DeepCopyObject()
	once := there(t, first)
	if diff := cmp.Diff(before, first); diff != "" {
		t.Errorf("the conversion changed its input (-before +after):\n%s", diff)
	}
	returned := back(t, once)
	if diff := cmp.Diff(first, returned); diff != "" {
		t.Errorf("the object changed (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(once, there(t, returned)); diff != "" {
		t.Errorf("the second conversion differs (-first +second):\n%s", diff)
	}
}

// fewValues returns a filler with few different values.
func fewValues(seed int64) *randfill.Filler {
	strings := []string{"", "a", "b", "Reboot", "Running"}
	numbers := []int{0, 0, 1, 2, -1, math.MaxInt32, math.MinInt32, math.MaxInt, math.MinInt}
	number := func(random randfill.Continue) int { return numbers[random.Intn(len(numbers))] }
	legal := legalValues(runtimeserializer.CodecFactory{})
	return randfill.NewWithSeed(seed).NilChance(0.4).NumElements(0, 3).Funcs(append(legal,
		// The conversion ignores metadata, and the kind is set already.
		func(*metav1.TypeMeta, randfill.Continue) {},
		func(*metav1.ObjectMeta, randfill.Continue) {},
		func(value *metav1.Time, random randfill.Continue) {
			*value = metav1.Unix(int64(random.Uint32()), 0)
		},
		func(value *string, random randfill.Continue) { *value = strings[random.Intn(len(strings))] },
		func(value *int, random randfill.Continue) { *value = number(random) },
		func(value *int32, random randfill.Continue) { *value = int32(number(random)) },
	)...)
}
