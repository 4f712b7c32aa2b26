package manifests_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/version"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"
)

// tiltProvider is what Cluster API's Tiltfile reads of tilt-provider.json. It ignores other fields.
type tiltProvider struct {
	Name   string `json:"name"`
	Config struct {
		Image                            string   `json:"image"`
		LiveReloadDeps                   []string `json:"live_reload_deps"`
		Label                            string   `json:"label"`
		Context                          string   `json:"context"`
		GoMain                           string   `json:"go_main"`
		Version                          string   `json:"version"`
		KustomizeFolder                  string   `json:"kustomize_folder"`
		KustomizeOptions                 []string `json:"kustomize_options"`
		ApplyProviderYAML                *bool    `json:"apply_provider_yaml"`
		AdditionalDockerHelperCommands   string   `json:"additional_docker_helper_commands"`
		AdditionalDockerBuildCommands    string   `json:"additional_docker_build_commands"`
		AdditionalResources              []string `json:"additional_resources"`
		AdditionalUncategorizedResources []string `json:"additional_uncategorized_resources"`
		ResourceDeps                     []string `json:"resource_deps"`
	} `json:"config"`
}

func TestTiltFindsWhatItNeeds(t *testing.T) {
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
	if provider.Name != "metal3" {
		t.Errorf("the name is %s, want metal3", provider.Name)
	}
	_, container := manager(t, components(t))
	if image, _, _ := strings.Cut(container.Image, ":"); image != provider.Config.Image {
		t.Errorf("the image is %s, want that of config/default, %s", provider.Config.Image, image)
	}
	context := filepath.Join(checkout(t), provider.Config.Context)
	for _, path := range append(provider.Config.LiveReloadDeps, provider.Config.GoMain, provider.Config.KustomizeFolder) {
		if _, err := os.Stat(filepath.Join(context, path)); err != nil {
			t.Errorf("tilt-provider.json names %s: %v", path, err)
		}
	}
	// A folder that is left out is compiled, but changing it restarts nothing. The manager needs nothing of cmd.
	for _, folder := range []string{"api", "baremetal", "controllers", "internal"} {
		_, err := os.Stat(filepath.Join(context, folder))
		if err == nil && !slices.Contains(provider.Config.LiveReloadDeps, folder) {
			t.Errorf("tilt-provider.json leaves out %s", folder)
		}
	}
}

// clusterctl reads the releases of CAPM3 in this table when it upgrades to this provider.
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
			t.Errorf("series %d.%d is none of CAPM3's and none of ours", series.Major, series.Minor)
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

// The images are compiled by a Go that is at least as new as the version in go.mod.
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
			t.Errorf("%s compiles with Go %s, go.mod asks for %s", name, image, module)
		}
	}
}

// A tag of a base image may move between two builds of a release, a digest does not.
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
			t.Errorf("%s has %d stages, want one that builds and one that runs", name, len(images))
		}
		for _, image := range images {
			if !pinned.Match(image[1]) {
				t.Errorf("%s starts from %s, want a tag and a digest", name, image[1])
			}
		}
	}
}
