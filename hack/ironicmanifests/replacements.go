package main

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// value is a value of the user: its name in values.env, and its placeholder.
type value struct {
	name, placeholder string
}

// variables are the values that dnsmasq gets as environment. The longer placeholders come first, because shorter ones
// are parts of them.
func variables() []value {
	return []value{
		{"DHCP_RANGE", placeholderRange},
		{"DHCP_ROUTER", "option:router," + placeholderServer},
		{"DHCP_DNS", "option:dns-server," + placeholderServer},
		{"PROVISIONING_IP", placeholderIP},
		{"PROVISIONING_INTERFACE", placeholderInterface},
	}
}

// secondValues is the prefix of the names of values for the second VIP.
const secondValues = "SECOND_"

// allValues are all values that a replacement may use.
func allValues() []value {
	return append(variables(),
		value{secondValues + "IP", placeholderSecondIP}, value{secondValues + "CIDR", placeholderSecondCIDR},
		value{"PROVISIONING_CIDR", placeholderCIDR}, value{"CLUSTER_ID", placeholderID},
		value{"VIRTUAL_ROUTER_ID", strconv.Itoa(placeholderRouterID)})
}

// replacement is a replacement of kustomize.
type replacement struct {
	Source  source   `json:"source"`
	Targets []target `json:"targets"`
}

type source struct {
	Kind      string   `json:"kind"`
	Name      string   `json:"name"`
	FieldPath string   `json:"fieldPath"`
	Options   *options `json:"options,omitempty"`
}

type target struct {
	Select     selector `json:"select"`
	FieldPaths []string `json:"fieldPaths"`
	Options    *options `json:"options,omitempty"`
}

type selector struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// options select a part of a text by a delimiter, or create a missing target.
type options struct {
	Delimiter string `json:"delimiter,omitempty"`
	Index     *int   `json:"index,omitempty"`
	Create    bool   `json:"create,omitempty"`
}

// tree is an object, or the part of it below a path.
type tree struct {
	kind, name, prefix string
	root               any

	// only selects values by a prefix of their names.
	only string

	// create creates missing targets.
	create bool
}

// origin is the source of a replacement: a value, or the length of the prefix in it.
type origin struct {
	name   string
	prefix bool
}

// part is the part of a text to replace. The zero value means all of it.
type part struct {
	delimiter string
	index     int
}

// spot is the source and the target of a replacement.
type spot struct {
	origin
	part
}

// replacements returns the replacements of all placeholders. It returns an error for a placeholder that no replacement
// can reach.
func replacements(trees ...tree) ([]replacement, error) {
	var all []replacement
	for _, tree := range trees {
		those, err := tree.replacements()
		if err != nil {
			return nil, err
		}
		all = append(all, those...)
	}
	return all, nil
}

func (t tree) replacements() ([]replacement, error) {
	root, err := plain(map[string]any{"": t.root})
	if err != nil {
		return nil, err
	}
	found := map[spot][]string{}
	err = walk(t.prefix, root[""], func(path, text string) error {
		spot, is, err := locate(text)
		if err != nil {
			return fmt.Errorf("%s %s, %s: %w", t.kind, t.name, path, err)
		}
		if is && strings.HasPrefix(spot.name, t.only) {
			found[spot] = append(found[spot], path)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	made := map[origin][]target{}
	for _, spot := range slices.SortedFunc(maps.Keys(found), compareSpots) {
		made[spot.origin] = append(made[spot.origin], target{
			Select: selector{t.kind, t.name}, FieldPaths: found[spot], Options: spot.options(t.create),
		})
	}
	var result []replacement
	for _, origin := range slices.SortedFunc(maps.Keys(made), compareOrigins) {
		result = append(result, replacement{Source: origin.source(), Targets: made[origin]})
	}
	return result, nil
}

func (o origin) source() source {
	from := source{Kind: "ConfigMap", Name: valuesName, FieldPath: "data." + o.name}
	if o.prefix {
		from.Options = &options{Delimiter: "/", Index: new(1)}
	}
	return from
}

func (p part) options(create bool) *options {
	switch {
	case p != (part{}):
		return &options{Delimiter: p.delimiter, Index: &p.index, Create: create}
	case create:
		return &options{Create: true}
	default:
		return nil
	}
}

func compareOrigins(a, b origin) int {
	return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(asNumber(a.prefix), asNumber(b.prefix)))
}

func compareSpots(a, b spot) int {
	return cmp.Or(compareOrigins(a.origin, b.origin), cmp.Compare(a.delimiter, b.delimiter), cmp.Compare(a.index, b.index))
}

func asNumber(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// locate returns the placeholder in a text. It ignores variables that Kubernetes expands.
func locate(text string) (spot, bool, error) {
	if text == strconv.Itoa(placeholderPrefix) {
		return spot{origin: origin{"PROVISIONING_CIDR", true}}, true, nil
	}
	for _, value := range allValues() {
		where := origin{name: value.name}
		flag, after, _ := strings.Cut(text, "=")
		switch {
		case text == value.placeholder:
			return spot{origin: where}, true, nil
		case after == value.placeholder && strings.HasPrefix(flag, "--"):
			return spot{where, part{"=", 1}}, true, nil
		// The second of two. Another replacement sets the first.
		case after == placeholderIP+","+value.placeholder:
			return spot{where, part{",", 1}}, true, nil
		// A name with a value as its prefix. The dollar prevents a match of a dash in the value.
		case strings.HasPrefix(text, value.placeholder+"-$("):
			return spot{where, part{"-$", 0}}, true, nil
		}
	}
	for _, value := range allValues() {
		if value.name != "VIRTUAL_ROUTER_ID" && strings.Contains(text, value.placeholder) {
			return spot{}, false, fmt.Errorf("no replacement reaches %s in %q", value.name, text)
		}
	}
	return spot{}, false, nil
}

// walk visits the texts and numbers of a JSON tree in order, with their paths in the syntax of kustomize.
func walk(path string, node any, visit func(path, text string) error) error {
	switch node := node.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(node)) {
			if err := walk(join(path, key), node[key], visit); err != nil {
				return err
			}
		}
	case []any:
		for i, element := range node {
			if err := walk(join(path, elementKey(i, element)), element, visit); err != nil {
				return err
			}
		}
	case string:
		return visit(path, node)
	case json.Number:
		return visit(path, node.String())
	}
	return nil
}

// elementKey returns the name of an element of a list, if it has one.
func elementKey(index int, element any) string {
	if object, is := element.(map[string]any); is {
		if name, is := object["name"].(string); is {
			return "[name=" + name + "]"
		}
	}
	return strconv.Itoa(index)
}

func join(path, key string) string {
	if strings.ContainsAny(key, "./") && !strings.HasPrefix(key, "[") {
		key = "[" + key + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// plain converts a typed object to the values of its JSON.
func plain(object any) (map[string]any, error) {
	content, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.UseNumber()
	result := map[string]any{}
	return result, decoder.Decode(&result)
}
