package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const download = "https://example.com/releases/download"

// write writes archives with some content into a folder.
func write(t *testing.T, names ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, name := range names {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("content of "+name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// released returns the platforms for which the release workflow builds. krew requires the licence in each archive.
func released(t *testing.T) []string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", ".github", "workflows", "release.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`for platform in ([^;]+); do`).FindSubmatch(content)
	if match == nil {
		t.Fatal("the release workflow builds the plugin for no platform")
	}
	if !regexp.MustCompile(`(?s)tar --create .*clusterctl-metal3 --directory "\$GITHUB_WORKSPACE" LICENSE\n`).Match(content) {
		t.Error("the release workflow adds no LICENSE to the archives")
	}
	return strings.Fields(string(match[1]))
}

// TestThePluginPrintsTheVersionOfItsRelease requires that make plugin sets the version in a package that the plugin
// reads.
func TestThePluginPrintsTheVersionOfItsRelease(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join("..", "..", "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	written := regexp.MustCompile(`(?m)^VERSION_PACKAGE := (\S+)$`).FindSubmatch(makefile)
	if written == nil {
		t.Fatal("the Makefile writes the version into no package")
	}
	imports, err := exec.CommandContext(t.Context(), "go", "list", "-f", `{{join .Imports "\n"}}`, "../../internal/plugin").Output()
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(strings.Fields(string(imports)), string(written[1])) {
		t.Errorf("internal/plugin does not import %s, into which make plugin writes the version", written[1])
	}
}

func TestRender(t *testing.T) {
	content, err := render("v1.15.0", write(t, "clusterctl-metal3-linux-arm64.tar.gz", "sha256sums.txt"), download)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"\n  version: v1.15.0\n",
		"uri: https://example.com/releases/download/v1.15.0/clusterctl-metal3-linux-arm64.tar.gz\n",
		"arch: arm64\n", "os: linux\n", "bin: clusterctl-metal3\n",
		// printf 'content of clusterctl-metal3-linux-arm64.tar.gz' | sha256sum
		"sha256: 113defb745461aa53fb6aae84fa62ed31861e21fd5d42614d4d0092e25390c24\n",
	} {
		if !strings.Contains(string(content), part) {
			t.Errorf("the manifest has no %q:\n%s", part, content)
		}
	}
	if got := strings.Count(string(content), "uri:"); got != 1 {
		t.Errorf("the manifest has %d platforms, want 1", got)
	}
}

// validate runs the validator of the index of krew on the manifest of a file name.yaml, and returns its output.
func validate(t *testing.T, name string, content []byte) (string, error) {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := binaries.Ensure(t.Context(), root, binaries.Set{Name: "krewvalidator", Programs: []binaries.Program{
		{Name: "validate-krew-manifest", Package: "sigs.k8s.io/krew/cmd/validate-krew-manifest"},
	}}, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), name+".yaml")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	output, err := exec.CommandContext(t.Context(), filepath.Join(folder, "validate-krew-manifest"),
		"-skip-install", "-manifest", path).CombinedOutput()
	return string(output), err
}

func TestKrewAccepts(t *testing.T) {
	var archives []string
	for _, each := range released(t) {
		archives = append(archives, "clusterctl-metal3-"+strings.ReplaceAll(each, "/", "-")+".tar.gz")
	}
	content, err := render("v1.15.0", write(t, archives...), download)
	if err != nil {
		t.Fatal(err)
	}
	if output, err := validate(t, "metal3", content); err != nil {
		t.Errorf("%v: %s", err, output)
	}
	if got := strings.Count(string(content), "uri:"); got != len(archives) {
		t.Errorf("the manifest has %d platforms, want %d", got, len(archives))
	}
}

// TestKrewRefuses has a platform that krew does not support, so that the validator must read the manifest.
func TestKrewRefuses(t *testing.T) {
	content, err := render("v1.15.0", write(t, "clusterctl-metal3-linux-mips.tar.gz"), download)
	if err != nil {
		t.Fatal(err)
	}
	if output, err := validate(t, "metal3", content); err == nil || !strings.Contains(output, "supported platforms") {
		t.Errorf("error %v, want one about supported platforms: %s", err, output)
	}
}

func TestRenderFails(t *testing.T) {
	for name, tc := range map[string]struct{ version, archive, want string }{
		"NoVersion":   {"", "clusterctl-metal3-linux-amd64.tar.gz", "-version"},
		"NotSemantic": {"v1.15", "clusterctl-metal3-linux-amd64.tar.gz", "-version"},
		"NoArchive":   {"v1.15.0", "sha256sums.txt", "build the archives"},
		"NoPlatform":  {"v1.15.0", "clusterctl-metal3-linux.tar.gz", "no platform"},
	} {
		if _, err := render(tc.version, write(t, tc.archive), download); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: error %v, want one with %q", name, err, tc.want)
		}
	}
}
