package wire_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/wire"
)

func TestPrune(t *testing.T) {
	tree := wire.Tree{"drop": nil, "also": nil, "in": {"drop": nil}}
	cases := map[string]struct{ reason, text, want string }{
		"Nothing":    {"another name", `{"a":{"drop":1},"b":2}`, `{"a":{"drop":1},"b":2}`},
		"First":      {"with the comma after it", `{"drop":{"x":[1,"}"]},"b":2}`, `{"b":2}`},
		"Middle":     {"one comma stays", `{"a":1,"drop":[[],{}],"b":2}`, `{"a":1,"b":2}`},
		"Last":       {"with the comma before it", `{"a":1,"drop":"x"}`, `{"a":1}`},
		"Only":       {"an object without members", `{"drop":null}`, `{}`},
		"Several":    {"also at the end", `{"drop":1,"a":1,"also":2,"drop":3}`, `{"a":1}`},
		"All":        {"an object without members", `{"drop":1,"also":2}`, `{}`},
		"Below":      {"a member of a member, which stays", `{"in":{"drop":1},"drop":2}`, `{"in":{}}`},
		"Elements":   {"each object of an array", `{"in":[{"drop":1,"a":2},3,{"drop":1}]}`, `{"in":[{"a":2},3,{}]}`},
		"OtherValue": {"an object was expected", `{"in":"drop","drop":1}`, `{"in":"drop"}`},
		"Quotes":     {"quotes and brackets in strings", `{"a":"\"}\\","drop":"\\\"{","b":"]"}`, `{"a":"\"}\\","b":"]"}`},
		"Spaces":     {"white space around what stays", "{ \"a\" : 1 ,\n \"drop\" : 2 }\n", "{ \"a\" : 1 }\n"},
		"EmptyKey":   {"a member without a name", `{"":1,"drop":2}`, `{"":1}`},
		"Escaped":    {"another spelling of the name stays", `{"dr\u006fp":1}`, `{"dr\u006fp":1}`},
		"Array":      {"no object", `[{"drop":1}]`, `[{}]`},
		"Number":     {"no object", `1`, `1`},
		"Empty":      {"no text", ``, ``},
		"Cut":        {"half a text stays", `{"drop":1,"a":`, `{"drop":1,"a":`},
		"CutString":  {"half a string stays", `{"drop":1,"a":"\`, `{"drop":1,"a":"\`},
		"NoColon":    {"not JSON", `{"drop":1,"a" 1}`, `{"drop":1,"a" 1}`},
		"NoComma":    {"not JSON", `{"drop":1,"a":1 "b":2}`, `{"drop":1,"a":1 "b":2}`},
		"Extra":      {"what follows stays", `{"drop":1} {"drop":1}`, `{} {"drop":1}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := string(tree.Prune([]byte(tc.text))); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestPruneDeep has texts that would need a stack of gigabytes.
func TestPruneDeep(t *testing.T) {
	tree := wire.Tree{"a": nil, "b": {"a": nil}}
	for _, open := range []string{"[", `{"b":[`} {
		text := strings.Repeat(open, 10_000_000)
		if got := string(tree.Prune([]byte(text))); got != text {
			t.Errorf("%d bytes of %s are left, want all %d", len(got), open, len(text))
		}
	}
}

// FuzzPrune compares with the decoded text.
func FuzzPrune(f *testing.F) {
	tree := wire.Tree{"a": nil, "b": {"a": nil, "c": {"b": nil}}}
	for _, text := range []string{
		`{"a":1,"b":[{"a":{"b":"}"},"c":[{"b":1,"a":2}]}],"c":null}`, `{"b":{"a":1,"c":{"b":[],"d":"\\"},"a":2}}`, `[{"a":1},{"c":2,"a":3}]`,
		` { "a" : -1.5e3 , "a" : true } `, `{"c":{"a":1}}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		// Names with escapes stay, and deep texts.
		const deep = 20
		if !json.Valid(text) || bytes.Contains(text, []byte(`\u`)) || bytes.Count(text, []byte("[")) > deep {
			t.Skip()
		}
		want := remove(decode(t, text), tree)
		got := decode(t, tree.Prune(bytes.Clone(text)))
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", text, diff)
		}
	})
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatalf("decoding %s: %v", text, err)
	}
	return value
}

func remove(value any, tree wire.Tree) any {
	switch value := value.(type) {
	case map[string]any:
		for name, below := range tree {
			if below == nil {
				delete(value, name)
			} else if member, found := value[name]; found {
				value[name] = remove(member, below)
			}
		}
	case []any:
		for i := range value {
			value[i] = remove(value[i], tree)
		}
	}
	return value
}
