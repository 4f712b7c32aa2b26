package manifests_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"
)

// tiltProvider is a provider for Tilt. It keeps other fields by their names.
type tiltProvider struct {
	Name   string                     `json:"name"`
	Config map[string]json.RawMessage `json:"config"`
}

// prepareKeys are fields that only hack/tools/internal/tilt-prepare reads. The module proxy does not serve its
// module, so the names are copied from Cluster API v1.14.
var prepareKeys = []string{
	"apply_provider_yaml", "context", "kustomize_folder", "kustomize_options", "live_reload_deps", "version",
}

// optionalFields are fields that this provider omits. A new field of Cluster API must be added here or to the file.
var optionalFields = []string{
	"additional_docker_build_commands", "additional_docker_helper_commands", "additional_resources",
	"additional_uncategorized_resources", "apply_provider_yaml", "kustomize_options", "resource_deps", "version",
}

// tiltKeys returns the fields of a provider that Cluster API reads.
func tiltKeys(t *testing.T) sets.Set[string] {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/cluster-api")
	command.Dir = checkout(t)
	folder, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(folder)), "Tiltfile"))
	if err != nil {
		t.Fatal(err)
	}
	keys := sets.New(prepareKeys...)
	read := regexp.MustCompile(`(?:\bp\.get\(|\bprovider_config\[)"([a-z_]+)"`).FindAllSubmatch(content, -1)
	if len(read) == 0 {
		t.Fatal("the Tiltfile of Cluster API reads no provider: correct this test")
	}
	for _, match := range read {
		keys.Insert(string(match[1]))
	}
	return keys
}

func TestTiltReadsEveryField(t *testing.T) {
	provider, read := readTiltProvider(t), tiltKeys(t)
	given := sets.KeySet(provider.Config)
	for _, unread := range sets.List(given.Difference(read)) {
		t.Errorf("tilt-provider.json has the field %s, which Cluster API does not read", unread)
	}
	for _, missing := range sets.List(read.Difference(given).Difference(sets.New(optionalFields...))) {
		t.Errorf("Cluster API reads the field %s: add it to tilt-provider.json or to the optional fields", missing)
	}
	for _, gone := range sets.List(sets.New(optionalFields...).Difference(read)) {
		t.Errorf("Cluster API does not read the field %s any more: correct this test", gone)
	}
}

// readTiltProvider reads tilt-provider.json.
func readTiltProvider(t *testing.T) tiltProvider {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(checkout(t), "tilt-provider.json"))
	if err != nil {
		t.Fatal(err)
	}
	provider := tiltProvider{}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&provider); err != nil {
		t.Fatalf("tilt-provider.json: %v", err)
	}
	return provider
}

// field decodes one field.
func field[T any](t *testing.T, provider tiltProvider, name string) T {
	t.Helper()
	var value T
	if err := json.Unmarshal(provider.Config[name], &value); err != nil {
		t.Fatalf("field %s of tilt-provider.json: %v", name, err)
	}
	return value
}

func TestTiltProvider(t *testing.T) {
	provider := readTiltProvider(t)
	if provider.Name != "metal3" {
		t.Errorf("the name is %s, want metal3", provider.Name)
	}
	_, container := manager(t, components(t))
	if image, _, _ := strings.Cut(container.Image, ":"); image != field[string](t, provider, "image") {
		t.Errorf("the image is %s, want the image of config/default, %s", field[string](t, provider, "image"), image)
	}
	context := filepath.Join(checkout(t), field[string](t, provider, "context"))
	reloaded := field[[]string](t, provider, "live_reload_deps")
	main, folder := field[string](t, provider, "go_main"), field[string](t, provider, "kustomize_folder")
	for _, path := range append(slices.Clone(reloaded), main, folder) {
		if _, err := os.Stat(filepath.Join(context, path)); err != nil {
			t.Errorf("tilt-provider.json names %s: %v", path, err)
		}
	}
	// Changes of an omitted folder restart nothing. The manager imports nothing of cmd.
	for _, folder := range []string{"api", "baremetal", "controllers", "internal"} {
		_, err := os.Stat(filepath.Join(context, folder))
		if err == nil && !slices.Contains(reloaded, folder) {
			t.Errorf("tilt-provider.json leaves out %s", folder)
		}
	}
}

// TestReleasesFollowThoseOfCAPM3 reads metadata.yaml. clusterctl looks up the releases of CAPM3 there when it
// upgrades to this provider.
func TestReleasesFollowThoseOfCAPM3(t *testing.T) {
	content, err := os.ReadFile(filepath.Join(checkout(t), "metadata.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	metadata := &clusterctlv1.Metadata{}
	if err := yaml.UnmarshalStrict(content, metadata); err != nil {
		t.Fatal(err)
	}
	want := map[int32]string{13: "v1beta2", 14: "v1beta2", 15: "v1beta2"}
	for minor := int32(1); minor <= 12; minor++ {
		want[minor] = "v1beta1"
	}
	got := map[int32]string{}
	newest := int32(0)
	for _, series := range metadata.ReleaseSeries {
		if series.Major != 1 {
			t.Errorf("series %d.%d is neither of CAPM3 nor of this provider", series.Major, series.Minor)
		}
		got[series.Minor] = series.Contract
		newest = max(newest, series.Minor)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("contract of each series: -want, +got:\n%s", diff)
	}
	released := version.MustParseSemantic(defaultVersion(t))
	if int32(released.Minor()) != newest {
		t.Errorf("the Makefile releases %s, but the newest series is 1.%d", released, newest)
	}
}

var dockerfiles = []string{"Dockerfile", "images/keepalived/Dockerfile"}

// TestDockerfilesUseTheGoOfTheModule requires that images are compiled with the Go version of go.mod or a later one.
func TestDockerfilesUseTheGoOfTheModule(t *testing.T) {
	read := func(name, pattern string) *version.Version {
		content, err := os.ReadFile(filepath.Join(checkout(t), name))
		if err != nil {
			t.Fatal(err)
		}
		match := regexp.MustCompile(pattern).FindSubmatch(content)
		if match == nil {
			t.Fatalf("%s does not match %s", name, pattern)
		}
		return version.MustParseSemantic(string(match[1]))
	}
	module := read("go.mod", `(?m)^go (\S+)$`)
	for _, name := range dockerfiles {
		image := read(name, `(?m)^FROM \S+ golang:([0-9.]+)@`)
		if image.LessThan(module) || image.Minor() != module.Minor() {
			t.Errorf("%s compiles with Go %s, go.mod requires %s", name, image, module)
		}
	}
}

// TestDockerfilesPinTheirBaseImages requires digests, because tags may change between two builds of a release.
func TestDockerfilesPinTheirBaseImages(t *testing.T) {
	base := regexp.MustCompile(`(?m)^FROM (?:--\S+ )?(\S+)`)
	pinned := regexp.MustCompile(`:[^@]+@sha256:[0-9a-f]{64}$`)
	for _, name := range dockerfiles {
		content, err := os.ReadFile(filepath.Join(checkout(t), name))
		if err != nil {
			t.Fatal(err)
		}
		images := base.FindAllSubmatch(content, -1)
		if len(images) != 2 {
			t.Errorf("%s has %d stages, want a build stage and a final stage", name, len(images))
		}
		for _, image := range images {
			if !pinned.Match(image[1]) {
				t.Errorf("%s starts from %s, want a tag and a digest", name, image[1])
			}
		}
	}
}
