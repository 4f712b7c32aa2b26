package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/utils/ptr"
)

func schemaOf(kind string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: kind}
}

func listOf(inner apiextensionsv1.JSONSchemaProps, keys ...string) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{
		Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &inner}, XListMapKeys: keys,
	}
}

func TestTypeOf(t *testing.T) {
	text := schemaOf("string")
	type schema = apiextensionsv1.JSONSchemaProps
	choice := schema{Type: "string", Enum: []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}, {Raw: []byte(`"b"`)}}}
	textMap := schema{Type: "object", AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: &text}}
	port := schema{Type: "integer", Minimum: ptr.To(1.0), Maximum: ptr.To(65535.0)}
	cases := map[string]struct {
		reason string
		schema schema
		want   string
	}{
		"Plain":      {"a plain type has its name", schemaOf("boolean"), "boolean"},
		"List":       {"a list names the type of its elements", listOf(text), "list of string"},
		"KeyedList":  {"the key identifies merged entries", listOf(schemaOf("object"), "id"), "list of object by `id`"},
		"Map":        {"keys are always text", textMap, "map of string"},
		"Anything":   {"a field without a type accepts any JSON", schemaOf(""), "any"},
		"Quantity":   {"a quantity may be written as a number too", schema{XIntOrString: true}, "quantity"},
		"Time":       {"the format replaces the type", schema{Type: "string", Format: "date-time"}, "time"},
		"Values":     {"only these are accepted", choice, "one of `a`, `b`"},
		"BothLimits": {"a port has both", port, "integer, 1 to 65535"},
		"LowerLimit": {"an index has one", schema{Type: "integer", Minimum: ptr.To(0.0)}, "integer, at least 0"},
		"UpperLimit": {"an MTU has one", schema{Type: "integer", Maximum: ptr.To(9000.0)}, "integer, at most 9000"},
		"Length": {
			"names are limited", schema{Type: "string", MaxLength: ptr.To(int64(15))}, "string, at most 15 characters",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, typeOf(tc.schema)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestMeaningOf(t *testing.T) {
	cases := map[string]struct {
		reason, path, description, want string
	}{
		"Definition": {"the first column has the name", "spec.key", "key is the name.", "The name."},
		"Word":       {"a plain word begins a sentence", "spec.image", "image to\nwrite.", "Image to write."},
		"Name":       {"a name stays", "spec.nodeReuse", "nodeReuse keeps a host.", "nodeReuse keeps a host."},
		"Brackets":   {"a browser would parse a tag", "spec.id", "ID like <host>.", `ID like \<host>.`},
		"Empty":      {"a field without a comment", "spec.port", "", ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, meaningOf(tc.path, tc.description)); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestFieldsAreDescribedOnce(t *testing.T) {
	inner := apiextensionsv1.JSONSchemaProps{
		Type: "object", Required: []string{"name"},
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": schemaOf("string"), "kind": schemaOf("string")},
	}
	list := fieldList{plural: "metal3machines", seen: map[string]string{}}
	list.children("spec", apiextensionsv1.JSONSchemaProps{Properties: map[string]apiextensionsv1.JSONSchemaProps{
		"first": inner, "second": listOf(inner), "conditions": listOf(inner),
	}})
	want := [][]string{
		{"`spec.conditions`", "list of object", "", ""},
		{"`spec.first`", "object", "", ""},
		{"`spec.first.kind`", "string", "", ""},
		{"`spec.first.name`", "string", "required", ""},
		{"`spec.second`", "list of object", "", "Fields as in `spec.first`."},
	}
	if diff := cmp.Diff(want, list.rows); diff != "" {
		t.Errorf("a structure is described once, and conditions never: -want, +got:\n%s", diff)
	}
}
