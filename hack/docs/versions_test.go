package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// moduleFolder returns the folder of a module that a module of the checkout requires. It downloads the module unless it
// is in the module cache.
func moduleFolder(t *testing.T, in, module string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", module)
	command.Dir = filepath.Join(root(t), in)
	output, err := command.Output()
	var found struct{ Dir string }
	if err := errors.Join(err, json.Unmarshal(output, &found)); err != nil {
		t.Fatalf("downloading module %s: %v", module, err)
	}
	return found.Dir
}

// TestIronicIsAsOldAsBMOAccepts requires the minimum version of BMO, which uses the same Ironic.
func TestIronicIsAsOldAsBMOAccepts(t *testing.T) {
	folder := moduleFolder(t, "hack/bmo", "github.com/metal3-io/baremetal-operator")
	content, err := os.ReadFile(filepath.Join(folder, "pkg", "provisioner", "ironic", "clients", "features.go"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^const baseline = (\d+)$`).FindSubmatch(content)
	if match == nil {
		t.Fatal("BMO has no constant baseline any more: correct this test")
	}
	if want := "1." + string(match[1]); ironicapi.MinimumVersion != want {
		t.Errorf("this provider accepts API %s of Ironic, BMO %s", ironicapi.MinimumVersion, want)
	}
}

func TestDocumentsNameOneMinimumOfIronic(t *testing.T) {
	version := regexp.MustCompile(`(Cluster )?API(?: version)? (1\.\d+)`)
	pages := map[string]bool{"README.md": false, "docs/installation.md": false, "docs/troubleshooting.md": false}
	for name, text := range texts(t) {
		for _, match := range version.FindAllStringSubmatch(text, -1) {
			if match[1] != "" {
				continue
			}
			pages[name] = true
			if match[2] != ironicapi.MinimumVersion {
				t.Errorf("%s says %q, the minimum of Ironic is %s", name, match[0], ironicapi.MinimumVersion)
			}
		}
	}
	for name, named := range pages {
		if !named {
			t.Errorf("%s does not name the minimum version of Ironic", name)
		}
	}
}

// TestTheReadmeListsTestedVersions compares the versions in the README with those of the tests.
func TestTheReadmeListsTestedVersions(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "README.md"), "\n## Versions\n")
	rows := regexp.MustCompile(`(?m)^\| (.*) \|$`).FindAllStringSubmatch(section, 3)
	if len(rows) != 3 {
		t.Fatal("README.md has no table of versions")
	}
	listed := map[string]string{}
	values := strings.Split(rows[2][1], " | ")
	for i, name := range strings.Split(rows[0][1], " | ") {
		listed[name] = values[i]
	}
	series, _, _ := strings.Cut(strings.TrimPrefix(makeDefault(t, "VERSION"), "v"), ".0")
	for name, want := range map[string]string{
		"This provider":   series,
		"Cluster API":     required(t, "go.mod", "sigs.k8s.io/cluster-api"),
		"Kubernetes":      binaries.KubernetesVersion,
		"BMO":             required(t, "hack/bmo/go.mod", "github.com/metal3-io/baremetal-operator"),
		"Metal3 IPAM":     required(t, "hack/ipam/go.mod", "github.com/metal3-io/ip-address-manager"),
		"in-cluster IPAM": required(t, "hack/inclusteripam/go.mod", "sigs.k8s.io/cluster-api-ipam-provider-in-cluster"),
	} {
		if listed[name] != strings.TrimPrefix(want, "v") {
			t.Errorf("README.md lists %s %q, but the tests run with %s", name, listed[name], want)
		}
	}
}

// TestOwnersAreDefined requires that OWNERS_ALIASES defines the aliases in OWNERS.
func TestOwnersAreDefined(t *testing.T) {
	var owners struct{ Approvers, Reviewers []string }
	var defined struct{ Aliases map[string][]string }
	if err := yaml.Unmarshal([]byte(read(t, "OWNERS")), &owners); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(read(t, "OWNERS_ALIASES")), &defined); err != nil {
		t.Fatal(err)
	}
	if len(owners.Approvers) == 0 || len(owners.Reviewers) == 0 {
		t.Error("OWNERS has no approvers or no reviewers")
	}
	for _, name := range append(owners.Approvers, owners.Reviewers...) {
		if len(defined.Aliases[name]) == 0 {
			t.Errorf("OWNERS names %s, which OWNERS_ALIASES does not define", name)
		}
	}
}
