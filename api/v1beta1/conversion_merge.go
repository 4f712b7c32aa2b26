package v1beta1

import (
	"maps"
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/json"
)

// equal returns true if two values are the same as JSON.
func equal[T any](a, b T) (bool, error) {
	if apiequality.Semantic.DeepEqual(a, b) {
		return true, nil
	}
	one, err := tree(a)
	if err != nil {
		return false, err
	}
	other, err := tree(b)
	if err != nil {
		return false, err
	}
	return reflect.DeepEqual(one, other), nil
}

// rebase applies the edits from base to edited to full, which has more fields than base.
func rebase[T any](base, edited, full T) (T, error) {
	return rebaseIf(func(any, any) bool { return true }, base, edited, full)
}

// rebaseUnlessEdited returns the result of rebase if all edits only add to base. Otherwise it returns edited.
func rebaseUnlessEdited[T any](base, edited, full T) (T, error) {
	return rebaseIf(extends, base, edited, full)
}

func rebaseIf[T any](allowed func(edited, base any) bool, base, edited, full T) (T, error) {
	var trees [3]any
	for i, value := range []T{base, edited, full} {
		var err error
		if trees[i], err = tree(value); err != nil {
			return edited, err
		}
	}
	switch {
	case reflect.DeepEqual(trees[0], trees[1]):
		return full, nil
	case !allowed(trees[1], trees[0]):
		return edited, nil
	}
	var merged T
	return merged, transcribe(merge(trees[0], trees[1], trees[2]), &merged)
}

// merge returns full with the edits from base to edited. Objects are merged field by field. Lists are replaced as a
// whole: no list has an important field that only one of the versions has.
func merge(base, edited, full any) any {
	if reflect.DeepEqual(base, edited) {
		return full
	}
	baseFields, baseIs := base.(map[string]any)
	editedFields, editedIs := edited.(map[string]any)
	fullFields, fullIs := full.(map[string]any)
	if !baseIs || !editedIs || !fullIs {
		return edited
	}
	merged := maps.Clone(fullFields)
	for name := range baseFields {
		if _, stays := editedFields[name]; !stays {
			delete(merged, name)
		}
	}
	for name, after := range editedFields {
		before, existed := baseFields[name]
		if !existed || !reflect.DeepEqual(before, after) {
			merged[name] = merge(before, after, fullFields[name])
		}
	}
	return merged
}

// extends returns true if edited has all values of base. A longer list is not an extension.
func extends(edited, base any) bool {
	switch before := base.(type) {
	case map[string]any:
		after, is := edited.(map[string]any)
		if !is {
			return false
		}
		for name, value := range before {
			if field, found := after[name]; !found || !extends(field, value) {
				return false
			}
		}
		return true
	case []any:
		after, is := edited.([]any)
		if !is || len(after) != len(before) {
			return false
		}
		for i, value := range before {
			if !extends(after[i], value) {
				return false
			}
		}
		return true
	default:
		return reflect.DeepEqual(edited, base)
	}
}

// tree returns the decoded JSON of a value. It encodes the value twice, which drops fields whose parts are empty but
// not nil.
func tree[T any](value T) (any, error) {
	var (
		normal  T
		written any
	)
	if err := transcribe(value, &normal); err != nil {
		return nil, err
	}
	return written, transcribe(normal, &written)
}

// transcribe writes a value as JSON and reads it into another.
func transcribe(from, to any) error {
	data, err := json.Marshal(from)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, to)
}
