package pivot

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// HostDefinition is the CustomResourceDefinition of BareMetalHosts.
const HostDefinition = "baremetalhosts.metal3.io"

// FieldSchema is the part of the schema of a CustomResourceDefinition that lists the fields of an object.
type FieldSchema struct {
	// Properties are the fields of an object.
	Properties map[string]FieldSchema `json:"properties,omitempty"`

	// Items is the schema of the items of a list. Nil for anything but a list.
	Items *FieldSchema `json:"items,omitempty"`

	// Additional is set if the object may have any key.
	Additional json.RawMessage `json:"additionalProperties,omitempty"`

	// Preserves is true if the API server keeps fields that the schema does not have.
	Preserves bool `json:"x-kubernetes-preserve-unknown-fields,omitempty"`
}

// Covers returns true if a host that matches the other schema cannot have a field that this schema lacks. Then
// MissingFields finds nothing, and the hosts need not be read.
//
//	the other schema, in spec and status  this schema             covers
//	has a field                           has it, and covers it   yes
//	has a field                           has any key             yes
//	has a field                           lacks it                no
//	has any key                           has only its fields     no
func (s FieldSchema) Covers(other FieldSchema) bool {
	for _, part := range []string{"spec", "status"} {
		if !s.Properties[part].covers(other.Properties[part]) {
			return false
		}
	}
	return true
}

func (s FieldSchema) covers(other FieldSchema) bool {
	if other.open() && !s.open() {
		return false
	}
	for key, field := range other.Properties {
		if known, exists := s.Properties[key]; exists && !known.covers(field) || !exists && !s.open() {
			return false
		}
	}
	return other.Items == nil || s.Items == nil || s.Items.covers(*other.Items)
}

// MissingFields compares the fields that hosts use with the definition of BareMetalHosts in the target of a move. It
// returns at most one obstacle, which names each missing field and the first host that uses it.
//
//	field that the definition lacks               obstacle  because
//	of the spec, with a value                     yes       the API server would drop it
//	of the spec, zero or empty                    no        it means the same as a missing field
//	of the status that a move records             yes       the webhook of BMO would refuse the host
//	of the status that a move does not record     no        it does not move
//
// It returns an error if the status of a host cannot be recorded.
func MissingFields(target FieldSchema, hosts []map[string]any) ([]Obstacle, error) {
	var missing, seen []string
	for _, host := range hosts {
		name := nameOf(host)
		fields, err := fieldsBeyond(target, host)
		if err != nil {
			return nil, fmt.Errorf("recording the status of BareMetalHost %s: %w", name, err)
		}
		for _, field := range fields {
			if !slices.Contains(seen, field) {
				seen = append(seen, field)
				missing = append(missing, fmt.Sprintf("%s (BareMetalHost %s)", field, name))
			}
		}
	}
	if len(missing) == 0 {
		return nil, nil
	}
	return []Obstacle{AboutNamed("CustomResourceDefinition", "", HostDefinition).Blocks(CodeDefinitionOutdated,
		"install the release of BMO that the source runs, or a later one",
		"CustomResourceDefinition %s lacks fields that hosts use: %s", HostDefinition, Enumerate(missing))}, nil
}

func nameOf(host map[string]any) string {
	metadata, _ := host["metadata"].(map[string]any)
	name, _ := metadata["name"].(string)
	return name
}

// fieldsBeyond returns the paths of the fields of a host that a move requires and a schema lacks.
func fieldsBeyond(target FieldSchema, host map[string]any) ([]string, error) {
	spec, _ := host["spec"].(map[string]any)
	status, _ := host["status"].(map[string]any)
	recorded, err := recordedFields(status)
	if err != nil {
		return nil, err
	}
	found := append(
		target.Properties["spec"].beyond("spec", spec, isSet),
		target.Properties["status"].beyond("status", recorded, func(any) bool { return true })...)
	slices.Sort(found)
	return found, nil
}

// beyond returns the paths of the fields of a value that the schema lacks and that MissingFields reports.
func (s FieldSchema) beyond(path string, value any, counts func(any) bool) []string {
	var found []string
	switch value := value.(type) {
	case map[string]any:
		for key, field := range value {
			schema, known := s.Properties[key]
			switch at := path + "." + key; {
			case known:
				found = append(found, schema.beyond(at, field, counts)...)
			case !s.open() && counts(field):
				found = append(found, at)
			}
		}
	case []any:
		for _, item := range value {
			if s.Items != nil {
				found = append(found, s.Items.beyond(path+"[]", item, counts)...)
			}
		}
	}
	return found
}

// open returns true if an object may have keys that are not in its properties.
func (s FieldSchema) open() bool {
	return s.Preserves || len(s.Additional) > 0 && strings.TrimSpace(string(s.Additional)) != "false"
}

// isSet returns true if a value differs from a missing one.
func isSet(value any) bool {
	switch value := value.(type) {
	case nil:
		return false
	case map[string]any:
		return len(value) > 0
	case []any:
		return len(value) > 0
	default:
		return !reflect.ValueOf(value).IsZero()
	}
}
