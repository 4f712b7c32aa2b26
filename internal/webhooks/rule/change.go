package rule

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxChanges is the number of changed fields that a message names.
const maxChanges = 5

// everything is the name of a change without a field, such as from nil to a value.
const everything = "all of it"

// Unchanged returns an error for a change of a value that is set. The remedy names the alternative.
func Unchanged(path *field.Path, before, after, remedy string) *field.Error {
	if before == "" || before == after {
		return nil
	}
	return field.Invalid(path, after, fmt.Sprintf("is %q and does not change; %s", before, remedy))
}

// Changes returns a phrase with the JSON names of the fields that differ between two values of the same type. It is
// empty if nothing differs. Empty and missing lists are equal.
func Changes(before, after any) string {
	changes := differences("", reflect.ValueOf(before), reflect.ValueOf(after))
	if more := len(changes) - maxChanges; more > 0 {
		changes = append(changes[:maxChanges], fmt.Sprintf("%d more", more))
	}
	return strings.Join(changes, ", ")
}

// differences descends while both sides have the same shape, and returns the fields where they differ.
func differences(path string, before, after reflect.Value) []string {
	if equality.Semantic.DeepEqual(before.Interface(), after.Interface()) {
		return nil
	}
	switch before.Kind() {
	case reflect.Pointer:
		if !before.IsNil() && !after.IsNil() {
			return differences(path, before.Elem(), after.Elem())
		}
	case reflect.Slice:
		if before.Len() == after.Len() {
			return inElements(path, before, after)
		}
	case reflect.Map:
		return inEntries(path, before, after)
	case reflect.Struct:
		if found := inFields(path, before, after); len(found) > 0 {
			return found
		}
	}
	if path == "" {
		path = everything
	}
	return []string{path}
}

func inElements(path string, before, after reflect.Value) []string {
	var found []string
	for i := range before.Len() {
		found = append(found, differences(fmt.Sprintf("%s[%d]", path, i), before.Index(i), after.Index(i))...)
	}
	return found
}

// inEntries supports maps from strings to strings only, the only maps of the API.
func inEntries(path string, before, after reflect.Value) []string {
	keys := map[string]bool{}
	for _, key := range slices.Concat(before.MapKeys(), after.MapKeys()) {
		was, is := before.MapIndex(key), after.MapIndex(key)
		if !was.IsValid() || !is.IsValid() || was.String() != is.String() {
			keys[key.String()] = true
		}
	}
	var found []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		found = append(found, fmt.Sprintf("%s[%s]", path, key))
	}
	return found
}

func inFields(path string, before, after reflect.Value) []string {
	var found []string
	for i := range before.NumField() {
		name, _, _ := strings.Cut(before.Type().Field(i).Tag.Get("json"), ",")
		if name == "" || name == "-" {
			continue
		}
		if path != "" {
			name = path + "." + name
		}
		found = append(found, differences(name, before.Field(i), after.Field(i))...)
	}
	return found
}
