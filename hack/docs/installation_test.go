package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// clusterctl runs the clusterctl of the version in the documents.
func clusterctl(t *testing.T, environment []string, arguments ...string) (string, error) {
	t.Helper()
	folder, err := binaries.Ensure(t.Context(), root(t), binaries.ClusterAPI(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(t.Context(), filepath.Join(folder, "clusterctl"), arguments...)
	command.Env = append([]string{"HOME=" + t.TempDir(), "CLUSTERCTL_DISABLE_VERSIONCHECK=true"}, environment...)
	output, err := command.CombinedOutput()
	return string(output), err
}

// settings returns the file clusterctl.yaml that the installation writes.
func settings(t *testing.T) string {
	t.Helper()
	text := regexp.MustCompile(`(?ms)^cat > clusterctl\.yaml <<END\n(.*?)^END$`).FindStringSubmatch(read(t, installation))
	if text == nil {
		t.Fatalf("%s does not write clusterctl.yaml", installation)
	}
	return text[1]
}

func settingsFile(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "clusterctl.yaml")
	if err := os.WriteFile(path, []byte(settings(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestClusterctlTakesTheReleaseFromTheSettings(t *testing.T) {
	output, err := clusterctl(t, nil, "config", "repositories", "--config", settingsFile(t), "--output", "yaml")
	if err != nil {
		t.Fatalf("clusterctl config repositories: %v\n%s", err, output)
	}
	var listed []struct{ File, Name, ProviderType, URL string }
	if err := yaml.Unmarshal([]byte(output), &listed); err != nil {
		t.Fatalf("%v in\n%s", err, output)
	}
	image := strings.TrimPrefix(makeDefault(t, "IMAGE"), "ghcr.io/")
	want := "https://github.com/" + image + "/releases/" + makeDefault(t, "VERSION") + "/"
	found := 0
	for _, each := range listed {
		if each.Name != "metal3" || each.ProviderType != "InfrastructureProvider" {
			continue
		}
		found++
		if each.URL != want || each.File != "infrastructure-components.yaml" {
			t.Errorf("clusterctl takes %s of %s, want infrastructure-components.yaml of %s", each.File, each.URL, want)
		}
	}
	if found != 1 {
		t.Errorf("clusterctl lists %d infrastructure providers with the name metal3, want 1:\n%s", found, output)
	}
}

// TestTheSettingsFillInTheFlavour requires a value for each variable without a default, except for arguments of
// clusterctl.
func TestTheSettingsFillInTheFlavour(t *testing.T) {
	template := filepath.Join(root(t), "templates", "cluster-template-ironic.yaml")
	arguments := []string{"CLUSTER_NAME=my-cluster", "NAMESPACE=metal3", "KUBERNETES_VERSION=v1.36.3"}
	output, err := clusterctl(t, arguments, "generate", "yaml", "--config", settingsFile(t), "--from", template)
	if err != nil {
		t.Fatalf("clusterctl generate yaml: %v\n%s", err, output)
	}
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(settings(t)), &values); err != nil {
		t.Fatal(err)
	}
	known := read(t, "templates/cluster-template-ironic.yaml")
	for name := range values {
		if name != "providers" && name != "CLUSTER_TOPOLOGY" && !strings.Contains(known, "${"+name) {
			t.Errorf("clusterctl.yaml sets %s, which the flavour ironic does not have", name)
		}
	}
}

func TestDocumentsDownloadFilesOfTheRelease(t *testing.T) {
	published := regexp.MustCompile(`/cluster-api-provider-metal3/releases/(?:download/)?(v[0-9.]+)/([a-z0-9.-]+)`)
	found := 0
	for name, text := range texts(t) {
		for _, match := range published.FindAllStringSubmatch(text, -1) {
			found++
			if match[1] != makeDefault(t, "VERSION") {
				t.Errorf("%s downloads %s of %s, but the Makefile releases %s", name, match[2], match[1], makeDefault(t, "VERSION"))
			}
			written := strings.Contains(read(t, "hack/releasemanifests/release_test.go"), `"`+match[2]+`"`) ||
				strings.Contains(scripts(t), "> "+match[2]+"\n")
			if !written {
				t.Errorf("%s downloads %s, which neither hack/releasemanifests nor a workflow writes", name, match[2])
			}
		}
	}
	if found == 0 {
		t.Error("no document downloads a file of a release")
	}
}

// TestDocumentsSayThatTheReleaseIsMissing requires a warning on the pages that download files of the release, until the
// list of changes says that the release is published.
func TestDocumentsSayThatTheReleaseIsMissing(t *testing.T) {
	version := strings.TrimPrefix(makeDefault(t, "VERSION"), "v")
	missing := strings.Contains(read(t, "CHANGELOG.md"), "\n## "+version+", not released\n")
	for _, name := range []string{"README.md", installation, "docs/runbook.md", "docs/migration-from-capm3.md", "docs/plugin.md"} {
		warns := strings.Contains(read(t, name), "**Release "+version+" is not published yet.**")
		if warns != missing {
			t.Errorf("%s warns that release %s is missing: %v, want %v as in CHANGELOG.md", name, version, warns, missing)
		}
	}
}

// required returns the version of a module that a module of the checkout requires.
func required(t *testing.T, file, module string) string {
	t.Helper()
	match := regexp.MustCompile(`(?m)^\s*(?:require )?` + regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(read(t, file))
	if match == nil {
		t.Fatalf("%s does not require %s", file, module)
	}
	return match[1]
}

func TestDocumentsInstallTestedVersions(t *testing.T) {
	operator := required(t, "hack/bmo/go.mod", "github.com/metal3-io/baremetal-operator")
	clusterAPI := required(t, "go.mod", "sigs.k8s.io/cluster-api")
	for _, each := range []struct{ what, pattern, want string }{
		{"BMO", `baremetal-operator/[a-z0-9/_-]+\?ref=(v[0-9.]+)`, operator},
		{"the image of BMO", `(?s)name: quay.io/metal3-io/baremetal-operator\n  newTag: (v[0-9.]+)`, operator},
		{"Cluster API", `--core cluster-api:(v[0-9.]+)`, clusterAPI},
		{"IPAM", `--ipam metal3:(v[0-9.]+)`, required(t, "hack/ipam/go.mod", "github.com/metal3-io/ip-address-manager")},
		{"the in-cluster IPAM", `--ipam in-cluster:(v[0-9.]+)`,
			required(t, "hack/inclusteripam/go.mod", "sigs.k8s.io/cluster-api-ipam-provider-in-cluster")},
		{"kubeadm", `kubeadm:(v[0-9.]+)`, clusterAPI},
		{"images of a checkout", `newTag: dev\$/newTag: (v[0-9.]+)/`, makeDefault(t, "VERSION")},
		{"this provider", `--config clusterctl\.yaml [^\n]*--infrastructure metal3:(v[0-9.]+)`, makeDefault(t, "VERSION")},
	} {
		found := 0
		for name, text := range texts(t) {
			for _, match := range regexp.MustCompile(each.pattern).FindAllStringSubmatch(text, -1) {
				found++
				if match[1] != each.want {
					t.Errorf("%s installs %s %s, but the tests run with %s", name, each.what, match[1], each.want)
				}
			}
		}
		if found == 0 {
			t.Errorf("no document installs %s: correct the pattern %s", each.what, each.pattern)
		}
	}
}

// TestBMOHasTheFolderOfTheInstallation requires that the folder of BMO in the installation exists and has the pinned
// image.
func TestBMOHasTheFolderOfTheInstallation(t *testing.T) {
	folder := moduleFolder(t, "hack/bmo", "github.com/metal3-io/baremetal-operator")
	match := regexp.MustCompile(`baremetal-operator/([a-z0-9/_-]+)\?ref=`).FindStringSubmatch(read(t, installation))
	if match == nil {
		t.Fatal("the installation does not build a folder of BMO")
	}
	if _, err := os.Stat(filepath.Join(folder, match[1], "kustomization.yaml")); err != nil {
		t.Error(err)
	}
	manager, err := os.ReadFile(filepath.Join(folder, "config", "base", "manager.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(manager), "image: quay.io/metal3-io/baremetal-operator") {
		t.Error("BMO does not have the image that the installation pins")
	}
}

// TestNodeImageHasTheProgramsOfFlavours requires the units and programs of the flavours in the recipe of the image.
func TestNodeImageHasTheProgramsOfFlavours(t *testing.T) {
	page := read(t, installation)
	match := regexp.MustCompile(`(?ms)^cat > image\.json <<END\n(.*?)^END$`).FindStringSubmatch(page)
	if match == nil {
		t.Fatalf("%s has no recipe for a node image", installation)
	}
	var variables map[string]string
	if err := yaml.UnmarshalStrict([]byte(match[1]), &variables); err != nil {
		t.Fatal(err)
	}
	if version := "--kubernetes-version " + variables["kubernetes_semver"] + " "; !strings.Contains(page, version) {
		t.Errorf("the image has Kubernetes %s, but the cluster has another version", variables["kubernetes_semver"])
	}
	// image-builder installs the first four.
	installed := append([]string{"containerd", "kubelet", "kubeadm", "curl"}, strings.Fields(variables["extra_debs"])...)
	var values map[string]any
	if err := yaml.UnmarshalStrict([]byte(settings(t)), &values); err != nil {
		t.Fatal(err)
	}
	wanted := []string{"kubeadm"}
	for _, flavour := range []string{"ubuntu", "ironic"} {
		text := read(t, "templates/cluster-template-"+flavour+".yaml")
		for _, match := range regexp.MustCompile(`systemctl enable --now ([^\n"]+)`).FindAllStringSubmatch(text, -1) {
			wanted = append(wanted, strings.Fields(match[1])...)
		}
		for _, match := range regexp.MustCompile(`(?m)^\s+exec ([a-z]+) `).FindAllStringSubmatch(text, -1) {
			wanted = append(wanted, match[1])
		}
	}
	for _, name := range wanted {
		if strings.HasPrefix(name, "${CONTAINER_RUNTIME") {
			name, _ = values["CONTAINER_RUNTIME"].(string)
		}
		if !slices.Contains(installed, name) {
			t.Errorf("a flavour calls %s, which the image lacks: %q", name, installed)
		}
	}
}

// TestClusterctlReadsTheConfigurationsOfDocuments requires that each clusterctl.yaml in a document is valid and has this
// provider.
func TestClusterctlReadsTheConfigurationsOfDocuments(t *testing.T) {
	written := regexp.MustCompile(`(?ms)^( *)cat > clusterctl\.yaml <<(?:END\n.*?^ *END|EOF\n.*?^ *EOF)$`)
	found := 0
	for name, text := range texts(t) {
		for _, match := range written.FindAllStringSubmatch(text, -1) {
			// Blocks of numbered steps are indented.
			block := strings.ReplaceAll(match[0], "\n"+match[1], "\n")
			found++
			folder := t.TempDir()
			paste := exec.CommandContext(t.Context(), "bash", "-euc", block)
			paste.Dir, paste.Env = folder, []string{"HOME=" + folder, "PATH=" + os.Getenv("PATH")}
			if output, err := paste.CombinedOutput(); err != nil {
				t.Errorf("%s: bash: %v\n%s", name, err, output)
				continue
			}
			output, err := clusterctl(t, nil, "config", "repositories", "--config", filepath.Join(folder, "clusterctl.yaml"))
			if err != nil {
				t.Errorf("%s: clusterctl config repositories: %v\n%s", name, err, output)
				continue
			}
			line := regexp.MustCompile(`(?m)^metal3 +InfrastructureProvider +(\S+)`).FindStringSubmatch(output)
			if line == nil || !strings.Contains(line[1], "/"+makeDefault(t, "VERSION")+"/") {
				t.Errorf("%s: clusterctl takes metal3 of %q, want release %s", name, line, makeDefault(t, "VERSION"))
			}
		}
	}
	// The installation, the runbook and the migration write it.
	if found < 3 {
		t.Errorf("%d blocks write clusterctl.yaml, want 3: correct the pattern", found)
	}
}
