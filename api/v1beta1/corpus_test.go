package v1beta1_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// manifestsVariable names the folder of manifests for CAPM3.
const manifestsVariable = "CAPM3_MANIFESTS"

// brokenManifests returns the documents that CAPM3 rejects too, with the reason.
func brokenManifests() map[string]string {
	const selector = "matchExpressions is a map, with typographic quotes"
	broken := map[string]string{}
	broken["api-06.yaml/Metal3Machine/controlplane-0"] = selector
	broken["api-09.yaml/Metal3MachineTemplate/m3mt-0"] = selector
	broken["api-10.yaml/Metal3DataTemplate/nodepool-1"] = "routes have netmask, status has dataNames and names as indexes"
	broken["api-12.yaml/Metal3Data/nodepool-1-0"] = "status has the field error"
	broken["template-clusterclass.yaml/Metal3ClusterTemplate/example-cluster-template"] = "cloudProviderEnabled is " +
		"inside controlPlaneEndpoint"
	return broken
}

// manifestVariables returns the values of variables in the manifests.
func manifestVariables() map[string]string {
	return map[string]string{
		"CLUSTER_NAME":        "test1",
		"NAMESPACE":           "metal3",
		"IMAGE_URL":           "http://192.168.0.1/ubuntu.qcow2",
		"IMAGE_CHECKSUM":      "http://192.168.0.1/ubuntu.qcow2.sha256sum",
		"IMAGE_CHECKSUM_TYPE": "sha256",
		"IMAGE_FORMAT":        "qcow2",
		"CAPI_VERSION":        "v1beta2",
	}
}

// manifest is a document of a kind of this provider in v1beta1.
type manifest struct {
	kind string
	data []byte
}

// manifests reads all documents of kinds of this provider, by <file>/<kind>/<name>.
func manifests(t *testing.T) map[string]manifest {
	t.Helper()
	folder := os.Getenv(manifestsVariable)
	if folder == "" {
		t.Skipf("%s is not set: it names the folder of CAPM3's manifests", manifestsVariable)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s=%s holds no *.yaml: %v", manifestsVariable, folder, err)
	}
	found := map[string]manifest{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("reading a manifest: %v", err)
		}
		for name, document := range documents(t, replaceVariables(t, data)) {
			found[filepath.Base(file)+"/"+name] = document
		}
	}
	return found
}

// replaceVariables replaces the variables of a manifest. It fails the test for an unknown variable.
func replaceVariables(t *testing.T, data []byte) []byte {
	t.Helper()
	values := manifestVariables()
	return regexp.MustCompile(`\$\{[A-Z0-9_]+\}`).ReplaceAllFunc(data, func(variable []byte) []byte {
		value, known := values[strings.Trim(string(variable), "${}")]
		if !known {
			value = "1"
		}
		return []byte(value)
	})
}

// documents splits a file and returns the documents of kinds of this provider, by <kind>/<name>.
func documents(t *testing.T, data []byte) map[string]manifest {
	t.Helper()
	found := map[string]manifest{}
	reader := utilyaml.NewDocumentDecoder(io.NopCloser(bytes.NewReader(data)))
	defer func() { _ = reader.Close() }()
	for {
		document := make([]byte, len(data))
		length, err := reader.Read(document)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("splitting a manifest: %v", err)
		}
		var identity metav1.PartialObjectMetadata
		if err := yaml.Unmarshal(document[:length], &identity); err != nil {
			t.Fatalf("reading a manifest: %v", err)
		}
		if identity.APIVersion == v1beta1.GroupVersion.String() {
			found[identity.Kind+"/"+identity.Name] = manifest{kind: identity.Kind, data: document[:length]}
		}
	}
}

// withoutUnknownFields returns the problems except for unknown fields.
func withoutUnknownFields(problems []string) []string {
	return slices.DeleteFunc(problems, func(problem string) bool { return strings.HasPrefix(problem, unknownField) })
}

// TestCorpus writes and reads every manifest of CAPM3 with strict field validation.
func TestCorpus(t *testing.T) {
	documents, kinds, broken := manifests(t), kinds(t), brokenManifests()
	for name := range broken {
		if _, found := documents[name]; !found {
			t.Errorf("%s is listed as broken, but the manifest does not exist: remove it from the list", name)
		}
	}
	for name, document := range documents {
		t.Run(name, func(t *testing.T) {
			definitions := definitions(t, document.kind)
			var fields map[string]any
			if err := yaml.UnmarshalStrict(document.data, &fields); err != nil {
				t.Fatalf("reading the manifest: %v", err)
			}
			written, problems := definitions[v1beta1.GroupVersion.Version].admit(t, fields)
			if reason, is := broken[name]; is {
				if len(problems) == 0 {
					t.Fatalf("the manifest is listed as broken because %s, but is accepted: remove it from the list", reason)
				}
				// Without strict validation, the API server drops unknown fields. The other fields must be valid.
				if problems = withoutUnknownFields(problems); len(problems) > 0 {
					t.Skipf("CAPM3 rejects the manifest too: %s: %s", reason, problems)
				}
			}
			for _, problem := range problems {
				t.Errorf("v1beta1 rejects the manifest: %s", problem)
			}
			kind := kinds[document.kind]
			spoke := transcribe(t, written, kind.spoke())
			hub := kind.toHub(t, spoke)
			stored := transcribe(t, definitions[infrav1.GroupVersion.Version].accepted(t, hub), kind.hub())
			if diff := cmp.Diff(hub, stored); diff != "" {
				t.Errorf("v1beta2 adds defaults that v1beta1 does not have (-converted +stored):\n%s", diff)
			}
			if diff := cmp.Diff(spoke, kind.toSpoke(t, stored)); diff != "" {
				t.Errorf("the stored object differs (-written +read):\n%s", diff)
			}
		})
	}
}
