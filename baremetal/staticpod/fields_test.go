package staticpod_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/staticpod"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/golden"
)

// TestEveryField sets each field of a pod, one at a time, and records whether Render returns an error. A new version of
// Kubernetes changes the list: decide for each new field whether it refers to an API server.
func TestEveryField(t *testing.T) {
	var lines []string
	for _, field := range fieldsOf(reflect.TypeFor[corev1.PodSpec](), "spec", nil) {
		pod := least()
		set(reflect.ValueOf(&pod.Spec).Elem(), field.steps)
		verdict := "allowed"
		content, err := staticpod.Render(pod)
		if err == nil {
			sameAsLibrary(t, pod, content)
		} else {
			if !strings.Contains(err.Error(), "spec.") {
				t.Errorf("%s is refused, and the error names no field: %v", field.path, err)
			}
			verdict = "refused"
		}
		lines = append(lines, verdict+" "+field.path)
	}
	suspicious := regexp.MustCompile(`(?i)(secret|configmap|claim|serviceaccount|csi|projected|runtimeclass|keyref)`)
	for _, line := range lines {
		if strings.HasPrefix(line, "allowed") && suspicious.MatchString(line) && !slices.Contains(harmless, line[8:]) {
			t.Errorf("%s has the name of a reference to an object of an API server and is allowed", line[8:])
		}
	}
	golden.Equal(t, "fields/verdicts.txt", []byte(strings.Join(foldRefused(lines), "\n")+"\n"))
}

// sameAsLibrary compares a manifest with the output of sigs.k8s.io/yaml.
func sameAsLibrary(t *testing.T, pod *corev1.Pod, content []byte) {
	t.Helper()
	encoded, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	decoder := json.NewDecoder(bytes.NewReader(encoded))
	decoder.UseNumber()
	if err := decoder.Decode(&object); err != nil {
		t.Fatal(err)
	}
	delete(object, "status")
	object["apiVersion"], object["kind"] = "v1", "Pod"
	want, err := yaml.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(content)); diff != "" {
		t.Errorf("the manifest differs from what sigs.k8s.io/yaml writes (-want +got):\n%s", diff)
	}
}

// harmless are fields with the name of a reference that are no references.
var harmless = []string{
	// The field only enables a token.
	"spec.automountServiceAccountToken",
}

// field is a leaf of a type.
type field struct {
	path string

	// steps are the numbers of the struct fields on the way.
	steps []int
}

// fieldsOf finds the leaves below a type. Types that nest in themselves end there.
func fieldsOf(kind reflect.Type, path string, above []reflect.Type) []field {
	for kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Slice {
		if kind.Kind() == reflect.Slice {
			path += "[]"
		}
		kind = kind.Elem()
	}
	if kind.Kind() != reflect.Struct || slices.Contains(above, kind) || !ours(kind) {
		return []field{{path: path}}
	}
	var all []field
	for i := range kind.NumField() {
		name, _, _ := strings.Cut(kind.Field(i).Tag.Get("json"), ",")
		inside := path + "." + name
		if name == "" {
			inside = path
		}
		for _, leaf := range fieldsOf(kind.Field(i).Type, inside, append(slices.Clone(above), kind)) {
			leaf.steps = append([]int{i}, leaf.steps...)
			all = append(all, leaf)
		}
	}
	if len(all) == 0 {
		return []field{{path: path}}
	}
	return all
}

// ours returns true for types whose fields are fields of the manifest. A quantity and a time are written as text.
func ours(kind reflect.Type) bool {
	return strings.HasPrefix(kind.PkgPath(), "k8s.io/api/") ||
		slices.Contains([]string{"LabelSelector", "LabelSelectorRequirement", "ObjectMeta"}, kind.Name())
}

// set follows the steps and sets the last field to a value that is not zero.
func set(value reflect.Value, steps []int) {
	switch value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			value.Set(reflect.New(value.Type().Elem()))
		}
		set(value.Elem(), steps)
	case reflect.Slice:
		if value.Len() == 0 {
			value.Set(reflect.MakeSlice(value.Type(), 1, 1))
		}
		set(value.Index(0), steps)
	case reflect.Struct:
		if len(steps) > 0 {
			set(value.Field(steps[0]), steps[1:])
		}
	case reflect.String:
		value.SetString("x")
	case reflect.Bool:
		value.SetBool(true)
	case reflect.Int, reflect.Int32, reflect.Int64:
		value.SetInt(1)
	case reflect.Uint8:
		value.SetUint(1)
	case reflect.Map:
		value.Set(reflect.MakeMap(value.Type()))
		value.SetMapIndex(reflect.New(value.Type().Key()).Elem(), reflect.New(value.Type().Elem()).Elem())
	default:
		panic(fmt.Sprintf("add how to set a %s", value.Kind()))
	}
}

// foldRefused replaces fields by their parent if all fields of the parent are refused.
func foldRefused(lines []string) []string {
	allowed := map[string]bool{}
	for _, line := range lines {
		if path, found := strings.CutPrefix(line, "allowed "); found {
			for _, parent := range parents(path) {
				allowed[parent] = true
			}
		}
	}
	var folded []string
	for _, line := range lines {
		if path, found := strings.CutPrefix(line, "refused "); found {
			for _, parent := range parents(path) {
				if !allowed[parent] {
					line = "refused " + parent
					break
				}
			}
		}
		folded = append(folded, line)
	}
	return slices.Compact(folded)
}

// parents returns the parents of a path from the top, and the path.
func parents(path string) []string {
	var all []string
	for i, char := range path {
		if char == '.' {
			all = append(all, path[:i])
		}
	}
	return append(all, path)
}
