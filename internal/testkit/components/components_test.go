package components_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/contract"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

func source(t *testing.T) components.Source {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return components.Source{Root: root, Progress: os.Stderr}
}

func TestDefinitions(t *testing.T) {
	cases := map[string]struct {
		reason string
		group  components.Group
		count  int
		suffix string
		one    string
		labels map[string]string
	}{
		"Provider": {
			"core finds the version by the contract labels, clusterctl move by its own", components.Provider, 9,
			"infrastructure.cluster.x-k8s.io", "metal3machines.infrastructure.cluster.x-k8s.io",
			map[string]string{
				"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
			},
		},
		"ClusterAPI": {
			"its CRDs have no labels", components.ClusterAPI, 17, "cluster.x-k8s.io",
			"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io",
			map[string]string{
				"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
			},
		},
		"ClusterAPICore": {
			"most suites create no kubeadm objects", components.ClusterAPICore, 13, "cluster.x-k8s.io",
			"machines.cluster.x-k8s.io",
			map[string]string{
				"clusterctl.cluster.x-k8s.io": "", "cluster.x-k8s.io/v1beta1": "v1beta1", "cluster.x-k8s.io/v1beta2": "v1beta2",
			},
		},
		"BaremetalOperator": {
			"hosts move with their dependents", components.BaremetalOperator, 11, "metal3.io", "baremetalhosts.metal3.io",
			map[string]string{
				"clusterctl.cluster.x-k8s.io": "", "clusterctl.cluster.x-k8s.io/move": "",
				"clusterctl.cluster.x-k8s.io/move-hierarchy": "",
			},
		},
		"AddressManager": {
			"it is installed by clusterctl", components.AddressManager, 3, "ipam.metal3.io", "ippools.ipam.metal3.io",
			map[string]string{"clusterctl.cluster.x-k8s.io": ""},
		},
		"InClusterAddressManager": {
			"it is installed by clusterctl", components.InClusterAddressManager, 4, "ipam.cluster.x-k8s.io",
			"inclusterippools.ipam.cluster.x-k8s.io", map[string]string{"clusterctl.cluster.x-k8s.io": ""},
		},
		"CertManager": {
			"no provider moves it", components.CertManager, 6, "cert-manager.io", "certificates.cert-manager.io", nil,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			definitions, err := source(t).Definitions(t.Context(), tc.group)
			if err != nil {
				t.Fatal(err)
			}
			if len(definitions) != tc.count {
				t.Errorf("%d definitions, want %d", len(definitions), tc.count)
			}
			for _, definition := range definitions {
				if !strings.HasSuffix(definition.Spec.Group, tc.suffix) {
					t.Errorf("%s belongs to group %s, want %s", definition.Name, definition.Spec.Group, tc.suffix)
				}
				if definition.Name != tc.one {
					continue
				}
				if got := contract.CalculateCRDName(definition.Spec.Group, definition.Spec.Names.Kind); got != definition.Name {
					t.Errorf("Cluster API expects %s, but the CRD is %s", got, definition.Name)
				}
				if diff := cmp.Diff(tc.labels, definition.Labels, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("%s: labels (-want +got):\n%s", tc.reason, diff)
				}
			}
		})
	}
}

func TestUnknownGroup(t *testing.T) {
	if _, err := source(t).Definitions(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "nonsense") {
		t.Errorf("error %v, want one that names the group", err)
	}
}

func TestOperatorManifests(t *testing.T) {
	module, err := source(t).BaremetalOperator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	objects, err := components.OperatorManifests(module)
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, object := range objects {
		count[object.GetKind()]++
	}
	if count["CustomResourceDefinition"] != 0 || count["Deployment"] != 1 || count["ValidatingWebhookConfiguration"] != 1 {
		t.Errorf("objects of the release: %v, want one Deployment, one ValidatingWebhookConfiguration and no CRD", count)
	}
	empty := t.TempDir()
	if _, err := components.OperatorManifests(empty); err == nil || !strings.Contains(err.Error(), empty) {
		t.Errorf("error %v, want one that names the folder", err)
	}
}

func TestWriteRepository(t *testing.T) {
	release := filepath.Join(t.TempDir(), "v1.15.0")
	for _, name := range []string{"infrastructure-components.yaml", "metadata.yaml", "cluster-template.yaml"} {
		write(t, filepath.Join(release, name), "kind: Namespace\n")
	}
	folder := t.TempDir()
	path, err := source(t).WriteRepository(t.Context(), components.Repository{
		Folder: folder, Release: release, AddressManager: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	var config struct {
		Providers   []struct{ Name, Type, URL string }
		CertManager struct{ URL, Version string } `json:"cert-manager"`
	}
	if err := yaml.UnmarshalStrict(read(t, path), &config); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, provider := range config.Providers {
		got = append(got, provider.Type+"/"+provider.Name)
		checkFolder(t, provider.URL)
	}
	want := []string{
		"CoreProvider/cluster-api", "BootstrapProvider/kubeadm", "ControlPlaneProvider/kubeadm", "IPAMProvider/metal3",
		"InfrastructureProvider/metal3",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("providers (-want +got):\n%s", diff)
	}
	if config.CertManager.Version != components.CertManagerVersion {
		t.Errorf("cert-manager %q, want %q", config.CertManager.Version, components.CertManagerVersion)
	}
	read(t, filepath.Join(folder, "infrastructure-metal3", "v1.15.0", "cluster-template.yaml"))
	checkCore(t, filepath.Join(folder, "cluster-api", binaries.CAPIVersion, "core-components.yaml"))
}

func TestPatientLeases(t *testing.T) {
	release := filepath.Join(t.TempDir(), "v1.15.0")
	for _, name := range []string{"infrastructure-components.yaml", "metadata.yaml"} {
		write(t, filepath.Join(release, name), "args:\n- --leader-elect\n- --v=0\n")
	}
	folder := t.TempDir()
	if _, err := source(t).WriteRepository(t.Context(), components.Repository{
		Folder: folder, Release: release, PatientLeases: true,
	}); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*", "*", "*-components.yaml"))
	if err != nil || len(files) != 4 {
		t.Fatalf("components %v (%v), want those of 4 providers", files, err)
	}
	for _, file := range files {
		var arguments []string
		for line := range strings.Lines(string(read(t, file))) {
			if argument := strings.TrimSpace(line); strings.Contains(argument, "leader-elect") && argument[0] == '-' {
				arguments = append(arguments, strings.Trim(argument, `- "`))
			}
		}
		if diff := cmp.Diff([]string{
			"leader-elect", "leader-elect-lease-duration=60s", "leader-elect-renew-deadline=50s", "leader-elect-retry-period=8s",
		}, arguments); diff != "" {
			t.Errorf("arguments of %s (-want +got):\n%s", file, diff)
		}
	}
}

// checkFolder checks the requirements of clusterctl for the folder of a provider.
func checkFolder(t *testing.T, url string) {
	t.Helper()
	path, isFile := strings.CutPrefix(url, "file://")
	if !isFile || !filepath.IsAbs(path) {
		t.Errorf("%s is not an absolute path of a file", url)
	}
	read(t, path)
	read(t, filepath.Join(filepath.Dir(path), "metadata.yaml"))
}

func checkCore(t *testing.T, path string) {
	t.Helper()
	content := read(t, path)
	if strings.Contains(string(content), "k8s-staging") {
		t.Error("the components name an image that is not released")
	}
	kinds := map[string]int{}
	for document := range strings.SplitSeq(string(content), "\n---\n") {
		var object metav1.TypeMeta
		if err := yaml.Unmarshal([]byte(document), &object); err != nil {
			t.Fatal(err)
		}
		kinds[object.Kind]++
	}
	if kinds["Namespace"] != 1 || kinds["Deployment"] != 1 || kinds["CustomResourceDefinition"] == 0 {
		t.Errorf("kinds %v, want one namespace, one Deployment and definitions", kinds)
	}
}

func TestWriteRepositoryWithoutRelease(t *testing.T) {
	release := t.TempDir()
	_, err := source(t).WriteRepository(t.Context(), components.Repository{Folder: t.TempDir(), Release: release})
	for _, want := range []string{release, "infrastructure-components.yaml", "make release-manifests"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to contain %q", err, want)
		}
	}
}

// TestClusterctl reads the repository with the real clusterctl, without a network.
func TestClusterctl(t *testing.T) {
	source := source(t)
	config, err := source.WriteRepository(t.Context(), components.Repository{Folder: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	clusterctl, err := source.Clusterctl(t.Context(), config, filepath.Join(t.TempDir(), "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	output, err := clusterctl.Run(t.Context(), "generate", "provider", "--describe",
		"--core=cluster-api:"+binaries.CAPIVersion)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(output, "registry.k8s.io/cluster-api/cluster-api-controller:"+binaries.CAPIVersion) {
		t.Errorf("clusterctl describes the core as\n%s", output)
	}
	if _, err := clusterctl.Run(t.Context(), "nonsense"); err == nil || !strings.Contains(err.Error(), "unknown command") {
		t.Errorf("error %v, want it to quote clusterctl", err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
