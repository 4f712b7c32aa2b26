package v1beta2_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/randfill"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

// rounds is the number of random objects of each kind.
const rounds = 500

// TestRandomObjects passes objects without schema validation to every validator and defaulter. None may panic,
// defaulting must be idempotent, and an unchanged object must be admitted.
func TestRandomObjects(t *testing.T) {
	random(t, func() *infrav1.Metal3Cluster { return &infrav1.Metal3Cluster{} },
		v1beta2.Metal3ClusterValidator(), v1beta2.Metal3ClusterDefaulter(fixedBytes))
	random(t, func() *infrav1.Metal3ClusterTemplate { return &infrav1.Metal3ClusterTemplate{} },
		v1beta2.Metal3ClusterTemplateValidator(), nil)
	random(t, func() *infrav1.Metal3Data { return &infrav1.Metal3Data{} },
		v1beta2.Metal3DataValidator(), nil)
	random(t, func() *infrav1.Metal3DataClaim { return &infrav1.Metal3DataClaim{} },
		v1beta2.Metal3DataClaimValidator(), nil)
	random(t, func() *infrav1.Metal3DataTemplate { return &infrav1.Metal3DataTemplate{} },
		v1beta2.Metal3DataTemplateValidator(), nil)
	random(t, func() *infrav1.Metal3Machine { return &infrav1.Metal3Machine{} },
		v1beta2.Metal3MachineValidator(), nil)
	random(t, func() *infrav1.Metal3MachineTemplate { return &infrav1.Metal3MachineTemplate{} },
		v1beta2.Metal3MachineTemplateValidator(), nil)
	random(t, func() *infrav1.Metal3Remediation { return &infrav1.Metal3Remediation{} },
		v1beta2.Metal3RemediationValidator(), v1beta2.Metal3RemediationDefaulter())
	random(t, func() *infrav1.Metal3RemediationTemplate { return &infrav1.Metal3RemediationTemplate{} },
		v1beta2.Metal3RemediationTemplateValidator(), v1beta2.Metal3RemediationTemplateDefaulter())
}

// plausible sets a text that half of the time passes the first check of a rule.
func plausible(text *string, fill randfill.Continue) {
	known := []string{
		"172.22.0.2", "172.22.0.10", "172.22.0.20", "172.22.0.0/24", "fd00::2", "fd00::20", "fd00::/64", "::", "0.0.0.0",
		"eth0", "Unicast", "AfterMove", "Always", "metal3://a/b/c", "oci://a/b", "https://a/b", "http://a:b", "live-iso",
		"/etc/kubernetes/manifests", "//", "Reboot", "in", "exists", "template", "template-1", "",
	}
	if fill.Bool() {
		*text = known[fill.Intn(len(known))]
		return
	}
	*text = fill.String(0)
}

func random[T client.Object](
	t *testing.T, empty func() T, validator admission.Validator[T], defaulter admission.Defaulter[T],
) {
	t.Helper()
	t.Run(fmt.Sprintf("%T", empty()), func(t *testing.T) {
		for seed := range int64(rounds) {
			fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).Funcs(plausible)
			before, after := empty(), empty()
			fill.Fill(before)
			fill.Fill(after)
			// An object that is being deleted is not validated.
			after.SetDeletionTimestamp(nil)
			before.SetDeletionTimestamp(nil)
			if defaulter != nil {
				defaultsOnce(t, seed, empty(), defaulter)
				defaultsOnce(t, seed, after, defaulter)
			}
			admitsNoChange(t, seed, after, validator)
			admitsNoChange(t, seed, empty(), validator)
			_, _ = validator.ValidateCreate(t.Context(), empty())
			_, _ = validator.ValidateCreate(t.Context(), after)
			_, _ = validator.ValidateUpdate(t.Context(), before, after)
			_, _ = validator.ValidateUpdate(t.Context(), empty(), after)
			_, _ = validator.ValidateUpdate(t.Context(), before, empty())
		}
	})
}

func defaultsOnce[T client.Object](t *testing.T, seed int64, object T, defaulter admission.Defaulter[T]) {
	t.Helper()
	if err := defaulter.Default(t.Context(), object); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	once := object.DeepCopyObject()
	if err := defaulter.Default(t.Context(), object); err != nil {
		t.Fatalf("seed %d: %v", seed, err)
	}
	if diff := cmp.Diff(once, object.DeepCopyObject()); diff != "" {
		t.Fatalf("seed %d: defaulting again changes the object (-once +twice):\n%s", seed, diff)
	}
}

func admitsNoChange[T client.Object](t *testing.T, seed int64, object T, validator admission.Validator[T]) {
	t.Helper()
	same, ok := object.DeepCopyObject().(T)
	if !ok {
		t.Fatalf("seed %d: a copy of %T has another type", seed, object)
	}
	if warnings, err := validator.ValidateUpdate(t.Context(), object, same); err != nil || len(warnings) > 0 {
		t.Fatalf("seed %d: an update without a change returns %q, %v", seed, warnings, err)
	}
}
