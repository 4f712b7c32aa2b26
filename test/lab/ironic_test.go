package lab

import (
	"bytes"
	stdcmp "cmp"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/keepalived"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// written returns a lab that has written only the manifest of Ironic and the template.
func written(t *testing.T) *Lab {
	t.Helper()
	checkout, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	made := &Lab{
		checkout: checkout, folder: t.TempDir(), ironicImage: "lab.invalid/metal3-ironic:key",
		options: Options{Progress: t.Logf},
	}
	if err := errors.Join(made.writeIronic(t.Context()), made.writeTemplates(t.Context())); err != nil {
		t.Fatal(err)
	}
	return made
}

// decode decodes the first document of a kind with a prefix of its name.
func decode(t *testing.T, manifest, kind, prefix string, into any) {
	t.Helper()
	documents := utilyaml.NewDocumentDecoder(io.NopCloser(strings.NewReader(manifest)))
	buffer := make([]byte, len(manifest)+1)
	for {
		length, err := documents.Read(buffer)
		if err != nil {
			t.Fatalf("looking for %s %s: %v", kind, prefix, err)
		}
		var found corev1.ConfigMap
		document := buffer[:length]
		// For other kinds only the names are decoded.
		_ = utilyaml.Unmarshal(document, &found)
		if found.Kind != kind || !strings.HasPrefix(found.Name, prefix) {
			continue
		}
		if err := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(document), length).Decode(into); err != nil {
			t.Fatal(err)
		}
		return
	}
}

// TestBothSidesAgree compares the settings of the management cluster with those of the control plane.
func TestBothSidesAgree(t *testing.T) {
	made := written(t)
	var settings corev1.ConfigMap
	decode(t, made.ironicManifest, "ConfigMap", "ironic-guard", &settings)
	management, err := vip.Decode([]byte(settings.Data["guard.json"]))
	if err != nil {
		t.Fatal(err)
	}
	template, err := os.ReadFile(made.TemplateWithIronic())
	if err != nil {
		t.Fatal(err)
	}
	variables := map[string]string{}
	for _, variable := range made.templateVariables() {
		name, value, _ := strings.Cut(variable, "=")
		variables[name] = value
	}
	var cluster infrav1.Metal3Cluster
	expanded := os.Expand(string(template), func(name string) string {
		name, fallback, _ := strings.Cut(name, ":=")
		return stdcmp.Or(variables[name], fallback, "1")
	})
	decode(t, expanded, "Metal3Cluster", "", &cluster)
	described := cluster.Spec.Ironic
	type agreed struct {
		ID, Address, Network, Interface, Mode, Interval string
		Router                                          int
	}
	want := agreed{
		management.ClusterID, management.VirtualIPs[0].Address.String(), management.VirtualIPs[0].Network.String(),
		management.Interface, string(management.Mode), time.Duration(management.AdvertisementInterval).String(),
		management.VirtualRouterID,
	}
	got := agreed{
		described.ClusterID, described.Endpoint.VirtualIPs[0], described.Endpoint.CIDRs[0], described.Endpoint.Interface,
		stdcmp.Or(string(described.VRRP.Mode), string(infrav1.VRRPMulticast)), keepalived.DefaultAdvertisementInterval.String(),
		int(described.VRRP.VirtualRouterID),
	}
	if described.VRRP.AdvertisementInterval != nil {
		t.Errorf("the template has another advertisement interval: %s", described.VRRP.AdvertisementInterval.Duration)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("management cluster and control plane do not agree:\n%s", diff)
	}
}

// TestManifest checks the changes of the lab in the Deployment.
func TestManifest(t *testing.T) {
	made := written(t)
	var deployment appsv1.Deployment
	decode(t, made.ironicManifest, "Deployment", IronicDeployment, &deployment)
	pod := deployment.Spec.Template.Spec
	for _, container := range append(pod.InitContainers, pod.Containers...) {
		if !strings.HasPrefix(container.Image, "lab.invalid/") {
			t.Errorf("container %s has the image %s, want an image of the lab", container.Name, container.Image)
		}
	}
}

func TestEditValues(t *testing.T) {
	path := filepath.Join(t.TempDir(), "values.env")
	if err := os.WriteFile(path, []byte("# A=0\nA=1\nB=2=3\n"), fileMode); err != nil {
		t.Fatal(err)
	}
	if err := editValues(path, map[string]string{"A": "4"}); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if want := "# A=0\nA=4\nB=2=3\n"; err != nil || string(content) != want {
		t.Errorf("the file holds %q (%v), want %q", content, err, want)
	}
	if err := editValues(path, map[string]string{"C": "5"}); err == nil {
		t.Error("a missing variable was accepted")
	}
}
