package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"
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

// released returns the platforms for which the release workflow builds.
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
	return strings.Fields(string(match[1]))
}

// make plugin writes the version of a release into a package, which the command version must read.
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

// TestKrewAccepts demands of the manifest of a release what krew demands of an index.
func TestKrewAccepts(t *testing.T) {
	var archives []string
	for _, each := range released(t) {
		archives = append(archives, "clusterctl-metal3-"+strings.ReplaceAll(each, "/", "-")+".tar.gz")
	}
	content, err := render("v1.15.0", write(t, archives...), download)
	if err != nil {
		t.Fatal(err)
	}
	var made manifest
	if err := yaml.UnmarshalStrict(content, &made); err != nil {
		t.Fatal(err)
	}
	for _, problem := range refused("metal3", made) {
		t.Error(problem)
	}
	if len(made.Spec.Platforms) != len(archives) {
		t.Errorf("%d of %d archives are in the manifest", len(made.Spec.Platforms), len(archives))
	}
}

// TestKrewRefuses shows that the rules find what is wrong.
func TestKrewRefuses(t *testing.T) {
	for name, spoil := range map[string]func(*manifest){
		"apiVersion": func(m *manifest) { m.APIVersion = "v1" },
		"kind":       func(m *manifest) { m.Kind = "Plug" },
		"name":       func(m *manifest) { m.Metadata.Name = "other" },
		"short":      func(m *manifest) { m.Spec.ShortDescription = "two\nlines" },
		"version":    func(m *manifest) { m.Spec.Version = "1.15" },
		"none":       func(m *manifest) { m.Spec.Platforms = nil },
		"sha256":     func(m *manifest) { m.Spec.Platforms[0].SHA256 = "ABC" },
		"uri":        func(m *manifest) { m.Spec.Platforms[0].URI = "" },
		"bin":        func(m *manifest) { m.Spec.Platforms[0].Bin = "" },
		"platform":   func(m *manifest) { m.Spec.Platforms[0].Selector.MatchLabels["arch"] = "mips" },
		"key":        func(m *manifest) { m.Spec.Platforms[0].Selector.MatchLabels["libc"] = "musl" },
		"twice":      func(m *manifest) { m.Spec.Platforms = append(m.Spec.Platforms, m.Spec.Platforms[0]) },
	} {
		t.Run(name, func(t *testing.T) {
			content, err := render("v1.15.0", write(t, "clusterctl-metal3-linux-amd64.tar.gz"), download)
			if err != nil {
				t.Fatal(err)
			}
			var made manifest
			if err := yaml.UnmarshalStrict(content, &made); err != nil {
				t.Fatal(err)
			}
			if problems := refused("metal3", made); len(problems) > 0 {
				t.Fatalf("before: %v", problems)
			}
			spoil(&made)
			if len(refused("metal3", made)) == 0 {
				t.Error("the rules accept it")
			}
		})
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

// platforms are those of krew.
var platforms = sets.New("windows/386", "windows/amd64", "windows/arm64", "linux/386", "linux/amd64", "linux/arm",
	"linux/arm64", "linux/ppc64le", "darwin/386", "darwin/amd64", "darwin/arm64")

// refused returns why krew would refuse the manifest of a file name.yaml. These are the rules of its package
// internal/index/validation and of its command validate-krew-manifest, as of krew 0.5.0.
func refused(name string, m manifest) []string {
	var problems []string
	check := func(good bool, problem string) {
		if !good {
			problems = append(problems, problem)
		}
	}
	check(m.APIVersion == "krew.googlecontainertools.github.com/v1alpha2", "apiVersion "+m.APIVersion)
	check(m.Kind == "Plugin", "kind "+m.Kind)
	check(m.Metadata.Name == name && regexp.MustCompile(`^[\w-]+$`).MatchString(name), "metadata.name "+m.Metadata.Name)
	check(m.Spec.ShortDescription != "" && !strings.ContainsAny(m.Spec.ShortDescription, "\r\n"), "spec.shortDescription")
	_, err := version.ParseSemantic(m.Spec.Version)
	check(err == nil && strings.HasPrefix(m.Spec.Version, "v"), "spec.version "+m.Spec.Version)
	check(len(m.Spec.Platforms) > 0, "spec.platforms is empty")
	seen := sets.New[string]()
	for _, each := range m.Spec.Platforms {
		check(each.URI != "", "uri is empty")
		check(regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(each.SHA256), "sha256 "+each.SHA256)
		check(each.Bin != "", "bin is empty")
		check(len(each.Selector.MatchLabels) == 2, "selector has other keys than os and arch")
		platform := each.Selector.MatchLabels["os"] + "/" + each.Selector.MatchLabels["arch"]
		check(platforms.Has(platform), "krew does not support platform "+platform)
		check(!seen.Has(platform), "two archives are for platform "+platform)
		seen.Insert(platform)
	}
	return problems
}
