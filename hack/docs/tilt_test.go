package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

// tiltSettings are the settings for tilt-settings.json in docs/development.md.
type tiltSettings struct {
	DefaultRegistry          string              `json:"default_registry"`
	ProviderRepos            []string            `json:"provider_repos"`
	EnableProviders          []string            `json:"enable_providers"`
	AdditionalKustomizations map[string]string   `json:"additional_kustomizations"`
	TemplateDirs             map[string][]string `json:"template_dirs"`
	Substitutions            map[string]string   `json:"kustomize_substitutions"`
	ExtraArgs                map[string][]string `json:"extra_args"`
}

// prepareSettings are settings that only hack/tools/internal/tilt-prepare reads. The module proxy does not serve its
// module, so the names are copied from Cluster API v1.14.
var prepareSettings = []string{"additional_kustomizations", "enable_providers", "extra_args", "provider_repos"}

func readTiltSettings(t *testing.T) (tiltSettings, sets.Set[string]) {
	t.Helper()
	found := blocks(read(t, "docs/development.md"), "json")
	if len(found) != 1 {
		t.Fatalf("docs/development.md has %d blocks of JSON, want only the settings of Tilt", len(found))
	}
	var parsed tiltSettings
	decoder := json.NewDecoder(strings.NewReader(found[0].Text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&parsed); err != nil {
		t.Fatal(err)
	}
	var keys map[string]any
	if err := json.Unmarshal([]byte(found[0].Text), &keys); err != nil {
		t.Fatal(err)
	}
	return parsed, sets.KeySet(keys)
}

func TestTiltReadsTheSettings(t *testing.T) {
	_, given := readTiltSettings(t)
	content, err := os.ReadFile(filepath.Join(moduleFolder(t, ".", "sigs.k8s.io/cluster-api"), "Tiltfile"))
	if err != nil {
		t.Fatal(err)
	}
	known := sets.New(prepareSettings...)
	for _, match := range regexp.MustCompile(`\bsettings\.get\("([a-z_]+)"`).FindAllSubmatch(content, -1) {
		known.Insert(string(match[1]))
	}
	for _, unread := range sets.List(given.Difference(known)) {
		t.Errorf("docs/development.md sets %s, which Cluster API does not read", unread)
	}
}

func TestTiltSettingsFitTheCheckout(t *testing.T) {
	parsed, _ := readTiltSettings(t)
	var provider struct {
		Name string `json:"name"`
	}
	if err := json.Unmarshal([]byte(read(t, "tilt-provider.json")), &provider); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(parsed.EnableProviders, provider.Name) || parsed.TemplateDirs[provider.Name] == nil {
		t.Errorf("the settings enable %q with the templates of %v, want %s", parsed.EnableProviders, parsed.TemplateDirs, provider.Name)
	}
	for _, path := range parsed.TemplateDirs[provider.Name] {
		inside, is := strings.CutPrefix(path, parsed.ProviderRepos[0]+"/")
		if _, err := os.Stat(filepath.Join(root(t), inside)); err != nil || !is {
			t.Errorf("the settings name templates in %s, which is not a folder of the checkout", path)
		}
	}
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	app.NewFlags(func(string) string { return "" }).Add(set)
	if err := set.Parse(parsed.ExtraArgs[provider.Name]); err != nil || len(parsed.ExtraArgs[provider.Name]) == 0 {
		t.Errorf("the manager refuses the arguments %q: %v", parsed.ExtraArgs[provider.Name], err)
	}
}

// TestTiltSettingsFillInTheTemplates renders all templates with the settings. Tilt sets the name of the cluster.
func TestTiltSettingsFillInTheTemplates(t *testing.T) {
	parsed, _ := readTiltSettings(t)
	templates, err := filepath.Glob(filepath.Join(root(t), "templates", "*.yaml"))
	if err != nil || len(templates) == 0 {
		t.Fatalf("no templates: %v", err)
	}
	for _, path := range templates {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`\$\{([A-Z0-9_]+)\}`).FindAllSubmatch(content, -1) {
			name := string(match[1])
			if optional := strings.Contains(string(content), "${"+name+":="); name == "CLUSTER_NAME" || optional {
				continue
			}
			if parsed.Substitutions[name] == "" {
				t.Errorf("the settings of Tilt do not set %s, which %s requires", name, filepath.Base(path))
			}
		}
	}
}

// TestBMOHasTheDemoMode requires that the pinned BMO has the flags and folders in the page.
func TestBMOHasTheDemoMode(t *testing.T) {
	page := read(t, "docs/development.md")
	folder := moduleFolder(t, "hack/bmo", "github.com/metal3-io/baremetal-operator")
	program, err := os.ReadFile(filepath.Join(folder, "main.go"))
	if err != nil {
		t.Fatal(err)
	}
	flag := regexp.MustCompile(`args/-, value: --([a-z-]+)\}`).FindStringSubmatch(page)
	if flag == nil {
		t.Fatal("docs/development.md runs BMO without a flag")
	}
	if !strings.Contains(string(program), `"`+flag[1]+`"`) {
		t.Errorf("BMO does not have the flag --%s", flag[1])
	}
	for _, match := range regexp.MustCompile(`baremetal-operator/(config/[a-z0-9/_-]+)\?ref=`).FindAllStringSubmatch(page, -1) {
		if _, err := os.Stat(filepath.Join(folder, match[1], "kustomization.yaml")); err != nil {
			t.Error(err)
		}
	}
}
