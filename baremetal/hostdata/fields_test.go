package hostdata_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// TestEachFieldIsRendered expects that the tables of this package render each field of metaData and networkData, and
// each enumerated value.
func TestEachFieldIsRendered(t *testing.T) {
	spec := templateSchema(t).Properties["spec"]
	rendered := map[string]bool{}
	for _, tc := range metaDataCases() {
		if len(tc.problems) == 0 {
			collect("metaData", read[any](t, tc.template), rendered)
		}
	}
	for _, cases := range []map[string]networkDataCase{networkDataCases(), sourceCases()} {
		for _, tc := range cases {
			if len(tc.problems) == 0 {
				collect("networkData", read[any](t, tc.template), rendered)
			}
		}
	}
	var all []string
	for _, part := range []string{"metaData", "networkData"} {
		all = append(all, leaves(part, spec.Properties[part])...)
	}
	if len(all) < 100 {
		t.Fatalf("the schema has %d fields, which cannot be all", len(all))
	}
	for _, field := range all {
		if !rendered[field] {
			t.Errorf("no case renders %s", field)
		}
	}
}

// templateSchema returns the schema of Metal3DataTemplates in the stored version.
func templateSchema(t *testing.T) apiextensionsv1.JSONSchemaProps {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases",
		infrav1.GroupVersion.Group+"_metal3datatemplates.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var definition apiextensionsv1.CustomResourceDefinition
	if err := yaml.Unmarshal(content, &definition); err != nil {
		t.Fatal(err)
	}
	for _, version := range definition.Spec.Versions {
		if version.Name == infrav1.GroupVersion.Version {
			return *version.Schema.OpenAPIV3Schema
		}
	}
	t.Fatalf("the CRD has no version %s", infrav1.GroupVersion.Version)
	return apiextensionsv1.JSONSchemaProps{}
}

// leaves returns the paths of the fields without fields of their own, and path=value for each enumerated value.
func leaves(path string, schema apiextensionsv1.JSONSchemaProps) []string {
	if schema.Items != nil && schema.Items.Schema != nil {
		return leaves(path+"[]", *schema.Items.Schema)
	}
	var found []string
	for name, property := range schema.Properties {
		found = append(found, leaves(path+"."+name, property)...)
	}
	for _, value := range schema.Enum {
		var text any
		if yaml.Unmarshal(value.Raw, &text) == nil {
			found = append(found, fmt.Sprintf("%s=%v", path, text))
		}
	}
	if len(found) == 0 {
		found = append(found, path)
	}
	slices.Sort(found)
	return found
}

// collect adds the paths of the fields of a template, and path=value for each value.
func collect(path string, content any, into map[string]bool) {
	switch content := content.(type) {
	case map[string]any:
		for name, value := range content {
			collect(path+"."+name, value, into)
		}
	case []any:
		for _, value := range content {
			collect(path+"[]", value, into)
		}
	default:
		into[fmt.Sprintf("%s=%v", path, content)] = true
	}
	into[path] = true
}
