package binaries_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/mod/modfile"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

// own are modules of which each program has its own version: that of its release.
var own = []string{"sigs.k8s.io/cluster-api", "k8s.io/cloud-provider"}

// TestModulesShareCompiledPackages compares modules whose programs use the same release of Kubernetes' libraries. With
// another version of a dependency, Go compiles these libraries again, for minutes.
func TestModulesShareCompiledPackages(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, group := range [][]string{
		{".", "hack/capi", "hack/certmanager"},
		{"hack/bmo", "hack/ipam", "hack/coredns"},
		{"hack/nodes", "hack/controlplane"},
	} {
		first := required(t, filepath.Join(root, group[0]))
		for _, folder := range group[1:] {
			versions := required(t, filepath.Join(root, folder))
			for _, path := range slices.Sorted(maps.Keys(versions)) {
				if want, shared := first[path]; shared && versions[path] != want && !slices.Contains(own, path) {
					t.Errorf("%s requires %s %s, and %s requires %s: run go get %s@VERSION with the later version in both",
						folder, path, versions[path], group[0], want, path)
				}
			}
		}
	}
}

func TestCertManagerHasTheVersionOfItsDefinitions(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	versions := required(t, filepath.Join(root, "hack", binaries.CertManager().Name))
	if got := versions["github.com/cert-manager/cert-manager"]; got != components.CertManagerVersion {
		t.Errorf("hack/certmanager requires cert-manager %s, want %s", got, components.CertManagerVersion)
	}
}

func required(t *testing.T, folder string) map[string]string {
	t.Helper()
	name := filepath.Join(folder, "go.mod")
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := modfile.Parse(name, content, nil)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, requirement := range file.Require {
		versions[requirement.Mod.Path] = requirement.Mod.Version
	}
	return versions
}
