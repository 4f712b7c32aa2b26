package manifests_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// TestClassVariablesHaveTheSchemaOfTheirFields compares the variables of the ClusterClass with the fields that they
// set. Cluster API validates the variable and drops fields that it lacks, the API server validates the field.
func TestClassVariablesHaveTheSchemaOfTheirFields(t *testing.T) {
	kinds := definitions(t)
	variables := map[string]map[string]any{}
	for _, variable := range clusterClass(t).Spec.Variables {
		variables[variable.Name] = plainSchema(t, variable.Schema.OpenAPIV3Schema)
	}
	for name, field := range map[string]struct{ kind, path string }{
		"ironic":              {"Metal3Cluster", "ironic"},
		"failureDomains":      {"Metal3Cluster", "failureDomains"},
		"hostSelector":        {"Metal3Machine", "hostSelector"},
		"failureDomainPolicy": {"Metal3Machine", "failureDomainPolicy"},
	} {
		spec := storedVersion(t, kinds[field.kind]).Schema.OpenAPIV3Schema.Properties["spec"]
		want := plainSchema(t, spec.Properties[field.path])
		if diff := cmp.Diff(want, variables[name], cmpopts.SortSlices(less)); diff != "" {
			t.Errorf("variable %s: -spec.%s of %s, +variable:\n%s", name, field.path, field.kind, diff)
		}
	}
}

// plainSchema returns a schema without descriptions, defaults and extensions for an API server.
func plainSchema(t *testing.T, schema any) map[string]any {
	t.Helper()
	content, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	plain := map[string]any{}
	if err := json.Unmarshal(content, &plain); err != nil {
		t.Fatal(err)
	}
	return strip(plain)
}

func strip(schema map[string]any) map[string]any {
	extra := []string{
		"description", "default", "format",
		"x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
	}
	maps.DeleteFunc(schema, func(key string, _ any) bool { return slices.Contains(extra, key) })
	if properties, isMap := schema["properties"].(map[string]any); isMap {
		for name := range properties {
			stripNested(properties, name)
		}
	}
	stripNested(schema, "items")
	stripNested(schema, "additionalProperties")
	return schema
}

func stripNested(within map[string]any, key string) {
	if nested, isMap := within[key].(map[string]any); isMap {
		strip(nested)
	}
}

// less sorts the names in a list.
func less(a, b any) bool {
	first, isName := a.(string)
	second, _ := b.(string)
	return isName && first < second
}
