package env_test

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// TestSeed expects that an outdated seed is replaced, and that later servers serve the CRDs of the new one.
func TestSeed(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	programs, err := binaries.Ensure(t.Context(), root, binaries.ControlPlane(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	// The empty cache has no programs.
	cache := t.TempDir()
	t.Setenv("KUBEBUILDER_ASSETS", programs)
	t.Setenv("METAL3_CACHE", cache)
	outdated := filepath.Join(cache, "seed-baremetal-operator.json")
	if err := os.WriteFile(outdated, []byte(`{"Key":"outdated","Pairs":[{"key":"Lw==","value":"Lw=="}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	first, second := definitionsOf(t), definitionsOf(t)
	if len(first) == 0 || !maps.Equal(first, second) {
		t.Errorf("the second server has the definitions %v, want those of the first one: %v", second, first)
	}
	if _, found := first["baremetalhosts.metal3.io"]; !found {
		t.Errorf("the first server has the definitions %v, want those of BMO", first)
	}
}

// definitionsOf returns the CRDs of BMO on a new server, with their UIDs, which each installation chooses.
func definitionsOf(t *testing.T) map[string]types.UID {
	t.Helper()
	server, err := env.Start(t.Context(), env.Options{Definitions: []components.Group{components.BaremetalOperator}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Stop(); err != nil {
			t.Error(err)
		}
	})
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := server.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, definition := range list.Items {
		uids[definition.Name] = definition.UID
	}
	return uids
}
