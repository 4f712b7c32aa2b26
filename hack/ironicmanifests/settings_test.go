package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// generatedCluster is a file of clusterctl generate cluster. Addresses and interface are those of the nodes.
const generatedCluster = `apiVersion: v1
kind: Secret
metadata: {name: other}
stringData: {key: value}
---
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata:
  name: my-cluster
spec:
  ironic:
    endpoint:
      virtualIPs: [172.22.0.2]
      cidrs: [172.22.0.0/24]
      interface: eno1
      externalIP: 203.0.113.2
`

// allSettings are the settings that do not depend on the side.
const allSettings = `    extraConfig:
    - {group: conductor, name: workers_pool_size, value: "50"}
    - {name: default_boot_mode, value: 100$}
    proxy: {httpsProxy: "http://proxy.example:3128", noProxy: [.example]}
    inspection: {collectors: [default, logs], vlanInterfaces: [all]}
    prometheusExporter: {enabled: true, bindAddress: 0.0.0.0}
    overrides:
      containers:
      - {name: ironic, resources: {limits: {memory: 2Gi}}}
    ramdisk:
      baseURL: https://images.example/ipa
      extraKernelParams: console=ttyS0,115200
      sshKey: ssh-ed25519 AAAA
      checksums:
        kernel: 1111111111111111111111111111111111111111111111111111111111111111
        initramfs: 2222222222222222222222222222222222222222222222222222222222222222
    tls: {disableVirtualMediaTLS: true}
    dhcp:
      rangeBegin: 172.22.0.50
      rangeEnd: 172.22.0.60
      hosts: ["00:60:2f:31:81:01,172.22.0.150"]
`

// written writes a file of a Metal3Cluster, and returns its path.
func written(t *testing.T, content string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "my-cluster.yaml")
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestSettings builds an overlay with the patch that settings prints, and compares its pod with the output of the
// renderer for the same settings.
func TestSettings(t *testing.T) {
	components := []string{"dhcp", "bmc-ca"}
	for name, more := range map[string]string{"one": "", "all": allSettings, "no download": "    ramdisk: {disableDownloader: true}\n"} {
		t.Run(name, func(t *testing.T) {
			checkout, file := folderWith(t, ""), written(t, generatedCluster+more)
			var printed bytes.Buffer
			if err := settings(checkout, append([]string{"--from", file}, components...), &printed); err != nil {
				t.Fatal(err)
			}
			wanted, err := ironicIn(file)
			if err != nil {
				t.Fatal(err)
			}
			read, err := readValues(checkout)
			if err != nil {
				t.Fatal(err)
			}
			want, err := podFor(read, components, func(described *infrav1.Ironic) { takeSettings(described, wanted) })
			if err != nil {
				t.Fatal(err)
			}
			got := deploymentIn(t, kustomized(t, checkout, components, printed.String())).Spec.Template.Spec
			if diff := cmp.Diff(shown(t, want), shown(t, got)); diff != "" {
				t.Errorf("-renderer, +kustomize with the patch:\n%s\npatch:\n%s", diff, printed.String())
			}
			if strings.Contains(printed.String(), "eno1") {
				t.Errorf("the patch has the interface of the nodes:\n%s", printed.String())
			}
		})
	}
}

// TestSettingsOfNothing expects no change without settings.
func TestSettingsOfNothing(t *testing.T) {
	content := strings.Replace(generatedCluster, "      externalIP: 203.0.113.2\n", "", 1)
	var printed bytes.Buffer
	if err := settings(root(t), []string{"--from", written(t, content)}, &printed); err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(printed.String(), "    spec: {}\n") {
		t.Errorf("the patch changes something:\n%s", printed.String())
	}
}

// TestSettingsHasEachField requires a decision for each field of spec.ironic.
func TestSettingsHasEachField(t *testing.T) {
	elsewhere := []string{
		"ClusterID", "Endpoint", "VRRP", "DHCP", "TLS", "GuardMetrics", // in values or components, or only a part of it
		"Takeover", "TakeoverAfterSilence", "Standby", "ManifestsDirectory", "Kubelet", // only on nodes
		"CredentialsRef", "TLSRef", // the Secrets are fixed
		"Images", // in the overlay
	}
	taken := []string{"ExtraConfig", "Proxy", "Inspection", "PrometheusExporter", "Overrides", "Ramdisk"}
	for field := range reflect.TypeFor[infrav1.Ironic]().Fields() {
		if !slices.Contains(slices.Concat(elsewhere, taken), field.Name) {
			t.Errorf("settings ignores spec.ironic.%s", field.Name)
		}
	}
}

func TestSettingsRefuses(t *testing.T) {
	for want, arguments := range map[string][]string{
		"--from is required":         nil,
		"0 objects of kind":          {"--from", written(t, "kind: Secret\n")},
		"2 objects of kind":          {"--from", written(t, generatedCluster+"---\n"+generatedCluster)},
		`unknown field "irony"`:      {"--from", written(t, strings.Replace(generatedCluster, "  ironic:", "  irony:", 1))},
		"no such file":               {"--from", "missing.yaml"},
		`"dhcpp" is not a component`: {"--from", written(t, generatedCluster), "dhcpp"},
	} {
		var printed bytes.Buffer
		err := settings(root(t), arguments, &printed)
		if err == nil || !strings.Contains(err.Error(), want) || printed.Len() > 0 {
			t.Errorf("settings %v: got error %v and %q, want %q", arguments, err, printed.String(), want)
		}
	}
}

func deploymentIn(t *testing.T, documents [][]byte) appsv1.Deployment {
	t.Helper()
	isDeployment := func(document []byte) bool { return bytes.Contains(document, []byte("\nkind: Deployment\n")) }
	deployment := appsv1.Deployment{}
	if err := yaml.Unmarshal(documents[slices.IndexFunc(documents, isDeployment)], &deployment); err != nil {
		t.Fatal(err)
	}
	return deployment
}

// shown returns the variables, command and resources of each container. Kubernetes expands variables that are
// defined before, so their values are expanded here, and their order does not matter.
func shown(t *testing.T, pod corev1.PodSpec) map[string]any {
	t.Helper()
	found := map[string]any{}
	for _, container := range slices.Concat(pod.InitContainers, pod.Containers) {
		variables := map[string]string{}
		var pairs []string
		for _, variable := range container.Env {
			variables[variable.Name] = variable.Value
			pairs = append(pairs, "$("+variable.Name+")", variable.Value)
		}
		var command []string
		for _, argument := range container.Command {
			command = append(command, strings.NewReplacer(pairs...).Replace(argument))
		}
		if container.Name == "dnsmasq" {
			variables = nil
		}
		resources, err := yaml.Marshal(container.Resources)
		if err != nil {
			t.Fatal(err)
		}
		found[container.Name] = []any{variables, command, string(resources)}
	}
	return found
}
