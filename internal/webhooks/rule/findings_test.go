package rule_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/rule"
)

func TestWithout(t *testing.T) {
	at := field.NewPath("spec", "field")
	wrong := func(value string) rule.Findings { return rule.Refusals(field.Invalid(at, value, "is wrong")) }
	warned := func(text string) rule.Findings { return rule.Warn(at, "%s", text) }
	cases := map[string]struct {
		reason              string
		before, after, want rule.Findings
	}{
		"nothing before": {reason: "all counts", after: wrong("a"), want: wrong("a")},
		"same":           {reason: "nothing new", before: wrong("a"), after: wrong("a")},
		"other value":    {reason: "a new mistake", before: wrong("a"), after: wrong("b"), want: wrong("b")},
		"repaired":       {reason: "a corrected error is not reported", before: wrong("a")},
		"warnings": {
			reason: "a warning is reported once",
			before: warned("a"), after: rule.Join(warned("a"), warned("b")), want: warned("b"),
		},
		"error after warning": {
			reason: "the two are different", before: warned("a"), after: rule.Join(warned("a"), wrong("a")), want: wrong("a"),
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := c.after.Without(c.before)
			if diff := cmp.Diff(c.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestRefusalsOmitNil(t *testing.T) {
	if got := rule.Refusals(nil, nil); len(got.Errors) > 0 {
		t.Errorf("nil errors are none, got %v", got.Errors)
	}
}

func TestChanges(t *testing.T) {
	type inner struct {
		Text string            `json:"text,omitempty"`
		Map  map[string]string `json:"map,omitempty"`
	}
	type outer struct {
		Pointer *inner               `json:"pointer,omitempty"`
		List    []inner              `json:"list,omitempty"`
		Number  int                  `json:"number,omitempty"`
		Free    apiextensionsv1.JSON `json:"free"`
		Hidden  string               `json:"-"`
	}
	cases := map[string]struct {
		reason        string
		before, after any
		want          string
	}{
		"same":               {reason: "nothing", before: outer{Number: 1}, after: outer{Number: 1}},
		"nil and empty list": {reason: "the same in JSON", before: outer{}, after: outer{List: []inner{}}},
		"nil pointers":       {reason: "both are nil", before: (*inner)(nil), after: (*inner)(nil)},
		"appearing":          {reason: "no field can be named", before: (*inner)(nil), after: &inner{}, want: "all of it"},
		"hidden": {
			reason: "a field that is not in JSON has no name",
			before: outer{}, after: outer{Hidden: "x"}, want: "all of it",
		},
		"pointer set": {
			reason: "the pointer changes",
			before: outer{}, after: outer{Pointer: &inner{}}, want: "pointer",
		},
		"below a pointer": {
			reason: "the field of the pointer changes",
			before: outer{Pointer: &inner{Text: "a"}}, after: outer{Pointer: &inner{Text: "b"}}, want: "pointer.text",
		},
		"in a list": {
			reason: "the element",
			before: outer{List: []inner{{Text: "a"}, {Text: "b"}}}, after: outer{List: []inner{{Text: "a"}, {Text: "c"}}},
			want: "list[1].text",
		},
		"longer list": {
			reason: "the new element cannot be identified",
			before: outer{List: []inner{{}}}, after: outer{List: []inner{{}, {}}}, want: "list",
		},
		"in a map": {
			reason: "added, removed and changed keys, sorted",
			before: inner{Map: map[string]string{"a": "1", "b": "1", "c": "1"}},
			after:  inner{Map: map[string]string{"d": "1", "b": "2", "c": "1"}}, want: "map[a], map[b], map[d]",
		},
		"free JSON": {
			reason: "a type without fields",
			before: outer{}, after: outer{Free: apiextensionsv1.JSON{Raw: []byte("1")}}, want: "free",
		},
		"many": {
			reason: "a message names five fields",
			before: []int{1, 2, 3, 4, 5, 6, 7}, after: []int{0, 0, 0, 0, 0, 0, 0},
			want: "[0], [1], [2], [3], [4], 2 more",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, rule.Changes(c.before, c.after)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
		})
	}
}

func TestSameReference(t *testing.T) {
	path := field.NewPath("ref")
	reference := &infrav1.Metal3ObjectRef{Name: "a"}
	if got := rule.SameReference(path, nil, reference, "own"); len(got.Errors) > 0 {
		t.Errorf("a missing reference may be set, got %v", got.Errors)
	}
	if got := rule.SameReference(path, &infrav1.Metal3ObjectRef{}, nil, "own"); len(got.Errors) > 0 {
		t.Errorf("a reference without a name counts as missing, got %v", got.Errors)
	}
}
