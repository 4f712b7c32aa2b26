package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

// moduleFolder returns the folder of a module that a module of the checkout requires.
func moduleFolder(t *testing.T, in, module string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", module)
	command.Dir = filepath.Join(root(t), in)
	output, err := command.Output()
	folder := strings.TrimSpace(string(output))
	if err != nil || folder == "" {
		t.Fatalf("module %s is not in the module cache: run go mod download in %s: %v", module, in, err)
	}
	return folder
}

// BMO and this provider talk to the same Ironic: a version that one of them refuses is of no use to the other.
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
