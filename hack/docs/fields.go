package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// elsewhere names the page that describes the common structure of a template.
func elsewhere() map[string]string {
	return map[string]string{
		"metal3clustertemplates spec.template.spec":     "[`spec` of Metal3Cluster](metal3cluster.md#fields)",
		"metal3machinetemplates spec.template.spec":     "[`spec` of Metal3Machine](metal3machine.md#fields)",
		"metal3remediationtemplates spec.template.spec": "[`spec` of Metal3Remediation](metal3remediation.md#fields)",
		"metal3remediationtemplates status.status":      "[`status` of Metal3Remediation](metal3remediation.md#fields)",
	}
}

// generatedParts returns the content of every generated part by its name.
func generatedParts(root string) (map[string]string, error) {
	parts := map[string]string{
		"flags": flagTable(), "failures": failureTable(), "phases": phaseDiagram(), "codes": codeTable(),
		"options": optionTable(),
	}
	repeated, err := installationParts(root)
	if err != nil {
		return nil, err
	}
	maps.Copy(parts, repeated)
	files, err := filepath.Glob(filepath.Join(root, "config", "crd", "bases", "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("looking for CRDs: %w", err)
	}
	for _, path := range files {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("reading a CRD: %w", err)
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("reading %s: %w", path, err)
		}
		plural := definition.Spec.Names.Plural
		parts["fields "+plural] = fieldTable(definition)
	}
	return parts, nil
}

func fieldTable(definition *apiextensionsv1.CustomResourceDefinition) string {
	list := fieldList{plural: definition.Spec.Names.Plural, seen: map[string]string{}}
	columns := ""
	for _, version := range definition.Spec.Versions {
		if version.Name != infrav1.GroupVersion.Version {
			continue
		}
		for _, half := range []string{"spec", "status"} {
			if schema, found := version.Schema.OpenAPIV3Schema.Properties[half]; found {
				list.children(half, schema)
			}
		}
		columns = columnList(list.plural, version.AdditionalPrinterColumns)
	}
	return table([]string{"Field", "Type", "Default", "Meaning"}, list.rows) + "\n" + columns
}

// columnList names the columns of kubectl get.
func columnList(plural string, columns []apiextensionsv1.CustomResourceColumnDefinition) string {
	var narrow, wide []string
	for _, column := range columns {
		if column.Priority > 0 {
			wide = append(wide, "`"+column.Name+"`")
			continue
		}
		narrow = append(narrow, "`"+column.Name+"`")
	}
	text := "Columns of `kubectl get " + plural + "`: " + strings.Join(narrow, ", ") + "."
	if len(wide) > 0 {
		text += " With `-o wide` also " + strings.Join(wide, ", ") + "."
	}
	return text + "\n"
}

// fieldList collects the rows of one kind.
type fieldList struct {
	plural string
	rows   [][]string

	// seen has the first description of a structure, by its schema. Later fields refer to it.
	seen map[string]string
}

func (l *fieldList) children(path string, schema apiextensionsv1.JSONSchemaProps) {
	for _, name := range slices.Sorted(maps.Keys(schema.Properties)) {
		l.add(path+"."+name, schema.Properties[name], slices.Contains(schema.Required, name))
	}
}

func (l *fieldList) add(path string, schema apiextensionsv1.JSONSchemaProps, required bool) {
	inner, suffix := inside(schema)
	meaning := meaningOf(path, schema.Description)
	first, repeated := "", isConditions(path)
	if !repeated {
		first, repeated = l.repeats(path, inner)
	}
	if first != "" {
		meaning = strings.TrimSpace(meaning + " Fields as in " + first + ".")
	}
	l.rows = append(l.rows, []string{"`" + path + "`", typeOf(schema), defaultOf(schema, required), meaning})
	if !repeated {
		l.children(path+suffix, inner)
	}
}

// isConditions returns true for a field with conditions, which are the same everywhere.
func isConditions(path string) bool { return strings.HasSuffix(path, ".conditions") }

// repeats returns the place that describes the structure of a field, if that is not the field itself.
func (l *fieldList) repeats(path string, inner apiextensionsv1.JSONSchemaProps) (string, bool) {
	if page, found := elsewhere()[l.plural+" "+path]; found {
		return page, true
	}
	if len(inner.Properties) < 2 {
		return "", false
	}
	identity := structure(inner)
	if first, found := l.seen[identity]; found {
		return "`" + first + "`", true
	}
	l.seen[identity] = path
	return "", false
}

// structure identifies the fields of a schema. The comment of the field itself does not count.
func structure(schema apiextensionsv1.JSONSchemaProps) string {
	content, err := json.Marshal(schema.Properties)
	if err != nil {
		// A schema that was read from YAML always has a JSON form.
		panic(err)
	}
	return string(content)
}

// inside returns the schema of the fields below a field, and the suffix of the path to them.
func inside(schema apiextensionsv1.JSONSchemaProps) (apiextensionsv1.JSONSchemaProps, string) {
	if schema.Items != nil && schema.Items.Schema != nil {
		return *schema.Items.Schema, "[]"
	}
	return schema, ""
}

func typeOf(schema apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.XIntOrString:
		return "quantity"
	case schema.Type == "array":
		inner, _ := inside(schema)
		text := "list of " + typeOf(inner)
		if len(schema.XListMapKeys) > 0 {
			text += " by `" + strings.Join(schema.XListMapKeys, "`, `") + "`"
		}
		return text
	case schema.Type == "object" && schema.AdditionalProperties != nil && schema.AdditionalProperties.Schema != nil:
		return "map of " + typeOf(*schema.AdditionalProperties.Schema)
	case len(schema.Enum) > 0:
		return "one of " + strings.Join(values(schema.Enum), ", ")
	case schema.Format == "date-time":
		return "time"
	case schema.Type == "":
		return "any"
	default:
		return schema.Type + limits(schema)
	}
}

func values(list []apiextensionsv1.JSON) []string {
	texts := make([]string, 0, len(list))
	for _, value := range list {
		texts = append(texts, "`"+strings.Trim(string(value.Raw), `"`)+"`")
	}
	return texts
}

func limits(schema apiextensionsv1.JSONSchemaProps) string {
	switch {
	case schema.Minimum != nil && schema.Maximum != nil:
		return fmt.Sprintf(", %v to %v", *schema.Minimum, *schema.Maximum)
	case schema.Minimum != nil:
		return fmt.Sprintf(", at least %v", *schema.Minimum)
	case schema.Maximum != nil:
		return fmt.Sprintf(", at most %v", *schema.Maximum)
	case schema.MaxLength != nil:
		return fmt.Sprintf(", at most %d characters", *schema.MaxLength)
	default:
		return ""
	}
}

// defaultOf returns the default in the schema. Defaults that the provider assumes later are part of the description.
func defaultOf(schema apiextensionsv1.JSONSchemaProps, required bool) string {
	switch {
	case schema.Default != nil:
		return "`" + strings.Trim(string(schema.Default.Raw), `"`) + "`"
	case required:
		return "required"
	default:
		return ""
	}
}

// meaningOf converts the comment of a field to a sentence of a table: without line breaks, without the name of the
// field before "is", and with a capital letter if the name is a plain word.
func meaningOf(path, description string) string {
	text := strings.ReplaceAll(strings.Join(strings.Fields(description), " "), "<", `\<`)
	name := path[strings.LastIndex(path, ".")+1:]
	rest, isDefinition := strings.CutPrefix(text, name+" is ")
	switch {
	case isDefinition:
		text = rest
	case !strings.HasPrefix(text, name+" ") || name != strings.ToLower(name):
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}
