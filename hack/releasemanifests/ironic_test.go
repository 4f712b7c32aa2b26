package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// TestReleasedIronic renders the release with clusterctl and the example values of config/ironic/values, and compares
// it with the output of kustomize for these values.
func TestReleasedIronic(t *testing.T) {
	made := released(t)
	files := map[string][]byte{}
	if err := made.addIronic(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	environment := []string{"IRONIC_ADDRESS=172.22.0.2", "IRONIC_CIDR=172.22.0.0/24"}
	for name, folder := range map[string]string{ironicFile: "ironic-keepalived", ironicEndpointFile: "endpoint"} {
		built, err := made.kustomize(t.Context(), filepath.Join(made.root, "config", "ironic", folder))
		if err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(string(built), defaultGuard+":dev", "registry.example/guard:v1.15.0")
		got, err := clusterctl(t, files[name], environment...)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, got)
		}
		if diff := cmp.Diff(strings.TrimSpace(want), strings.TrimSpace(got)); diff != "" {
			t.Errorf("%s differs from config/ironic/%s: -want, +got:\n%s", name, folder, diff)
		}
	}
}

// TestReleasedIronicRequiresValues requires an error without an address or a network.
func TestReleasedIronicRequiresValues(t *testing.T) {
	files := map[string][]byte{}
	if err := released(t).addIronic(t.Context(), files); err != nil {
		t.Fatal(err)
	}
	for file, variables := range map[string][]string{
		ironicFile: {"IRONIC_ADDRESS", "IRONIC_CIDR"}, ironicEndpointFile: {"IRONIC_ADDRESS"},
	} {
		for _, missing := range variables {
			environment := []string{"IRONIC_ADDRESS=172.22.0.2", "IRONIC_CIDR=172.22.0.0/24"}
			environment = slices.DeleteFunc(environment, func(set string) bool { return strings.HasPrefix(set, missing+"=") })
			output, err := clusterctl(t, files[file], environment...)
			if err == nil || !strings.Contains(output, "["+missing+"]") {
				t.Errorf("%s without %s: got error %v, output %q", file, missing, err, output)
			}
		}
	}
}

// TestReleasedIronicHasTheVariablesOfTheFlavour requires the same variables and defaults as in the flavour ironic,
// because both sides of a pivot must agree.
func TestReleasedIronicHasTheVariablesOfTheFlavour(t *testing.T) {
	template, err := os.ReadFile(filepath.Join(released(t).root, "templates", "cluster-template-ironic.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`\$\{IRONIC_[A-Z_]+(:=[^}]*)?\}`)
	for _, parameter := range parameters() {
		for _, text := range append(parameter.released, parameter.built) {
			if match := variable.FindString(text); match != "" && !bytes.Contains(template, []byte(match)) {
				t.Errorf("the flavour ironic lacks %s, which replaces %s", match, parameter.value)
			}
		}
	}
}

func released(t *testing.T) release {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return release{root: root, version: "v1.15.0", guard: "registry.example/guard:v1.15.0"}
}

// clusterctl substitutes variables as in an installation.
func clusterctl(t *testing.T, template []byte, environment ...string) (string, error) {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := binaries.Ensure(context.WithoutCancel(t.Context()), root, binaries.ClusterAPI(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(folder, "clusterctl"), "generate", "yaml", "--from", "-")
	command.Env = append([]string{"HOME=" + t.TempDir()}, environment...)
	command.Stdin = bytes.NewReader(template)
	output, err := command.CombinedOutput()
	return string(output), err
}
