package host_test

import (
	"runtime"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

func TestSelectorMatches(t *testing.T) {
	rule := func(key, operator string, values ...string) infrav1.HostSelectorRequirement {
		return infrav1.HostSelectorRequirement{Key: key, Operator: operator, Values: values}
	}
	type want struct {
		text           string
		match, noMatch labels.Set
	}
	inRack := want{"rack in (a,b)", labels.Set{"rack": "a"}, labels.Set{"rack": "c"}}
	notInRack := want{"rack notin (a,b)", labels.Set{"rack": "c"}, labels.Set{"rack": "a"}}
	has := want{"rack", labels.Set{"rack": ""}, labels.Set{"zone": "a"}}
	lacks := want{"!rack", labels.Set{"zone": "a"}, labels.Set{"rack": ""}}
	equals := want{"rack=a", labels.Set{"rack": "a"}, labels.Set{"rack": "b"}}
	notEquals := want{"rack!=a", labels.Set{}, labels.Set{"rack": "a"}}
	greater := want{"disks>4", labels.Set{"disks": "5"}, labels.Set{"disks": "4"}}
	less := want{"disks<4", labels.Set{"disks": "3"}, labels.Set{"disks": "4"}}

	cases := map[string]struct {
		rule infrav1.HostSelectorRequirement
		want want
	}{
		"In":                     {rule("rack", "In", "a", "b"), inRack},
		"in, as CAPM3 writes it": {rule("rack", "in", "a", "b"), inRack},
		"IN":                     {rule("rack", "IN", "a", "b"), inRack},
		"NotIn":                  {rule("rack", "NotIn", "a", "b"), notInRack},
		"notin":                  {rule("rack", "notin", "a", "b"), notInRack},
		"Exists":                 {rule("rack", "Exists"), has},
		"exists":                 {rule("rack", "exists"), has},
		"DoesNotExist":           {rule("rack", "DoesNotExist"), lacks},
		"doesnotexist":           {rule("rack", "doesnotexist"), lacks},
		"!, as CAPM3 writes it":  {rule("rack", "!"), lacks},
		"=":                      {rule("rack", "=", "a"), equals},
		"== is the same as =":    {rule("rack", "==", "a"), equals},
		"!=":                     {rule("rack", "!=", "a"), notEquals},
		"Gt":                     {rule("disks", "Gt", "4"), greater},
		"gt":                     {rule("disks", "gt", "4"), greater},
		"Lt":                     {rule("disks", "Lt", "4"), less},
		"lt":                     {rule("disks", "lt", "4"), less},
		"In with one value":      {rule("rack", "In", "a"), want{"rack in (a)", labels.Set{"rack": "a"}, labels.Set{}}},
		"= with the empty value": {rule("rack", "=", ""), want{"rack=", labels.Set{"rack": ""}, labels.Set{"rack": "a"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			selector, err := host.Selector(infrav1.HostSelector{MatchExpressions: []infrav1.HostSelectorRequirement{tc.rule}})
			if err != nil {
				t.Fatal(err)
			}
			if got := selector.String(); got != tc.want.text {
				t.Errorf("got %q, want %q", got, tc.want.text)
			}
			if !selector.Matches(tc.want.match) {
				t.Errorf("%s does not match %v", selector, tc.want.match)
			}
			if selector.Matches(tc.want.noMatch) {
				t.Errorf("%s matches %v", selector, tc.want.noMatch)
			}
		})
	}
}

func TestSelectorCombines(t *testing.T) {
	empty, err := host.Selector(infrav1.HostSelector{})
	if err != nil || !empty.Empty() {
		t.Errorf("an empty hostSelector gives %q, %v, want one that matches everything", empty, err)
	}
	selector, err := host.Selector(infrav1.HostSelector{
		MatchLabels:      map[string]string{"zone": "z", "rack": "a"},
		MatchExpressions: []infrav1.HostSelectorRequirement{{Key: "disks", Operator: "gt", Values: []string{"4"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("disks>4,rack=a,zone=z", selector.String()); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if selector.Matches(labels.Set{"zone": "z", "rack": "a", "disks": "4"}) {
		t.Error("a host that misses one of three rules matches")
	}
}

// TestSelectorIsLinear compares the memory of two selectors.
func TestSelectorIsLinear(t *testing.T) {
	allocated := func(count int) uint64 {
		wanted := infrav1.HostSelector{MatchLabels: map[string]string{}}
		for i := range count / 2 {
			key := "key-" + strconv.Itoa(i)
			wanted.MatchLabels[key] = "a"
			wanted.MatchExpressions = append(wanted.MatchExpressions,
				infrav1.HostSelectorRequirement{Key: key, Operator: "Exists"})
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := host.Selector(wanted)
		runtime.ReadMemStats(&after)
		if err != nil {
			t.Fatal(err)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	few, many := allocated(100), allocated(1000)
	if many > 20*few {
		t.Errorf("100 requirements allocate %d bytes, 1000 allocate %d, want at most 20 times as many", few, many)
	}
}

func TestSelectorErrors(t *testing.T) {
	rules := func(list ...infrav1.HostSelectorRequirement) infrav1.HostSelector {
		return infrav1.HostSelector{MatchExpressions: list}
	}
	cases := map[string]struct {
		selector infrav1.HostSelector
		want     string
	}{
		"an unknown operator": {
			selector: rules(infrav1.HostSelectorRequirement{Key: "rack", Operator: "within", Values: []string{"a"}}),
			want: `spec.hostSelector.matchExpressions[0]: operator "within" is unknown, ` +
				`use In, NotIn, Exists, DoesNotExist (or !), Gt, Lt, =, == or !=`,
		},
		"no operator": {
			selector: rules(infrav1.HostSelectorRequirement{Key: "rack"}),
			want: `spec.hostSelector.matchExpressions[0]: operator "" is unknown, ` +
				`use In, NotIn, Exists, DoesNotExist (or !), Gt, Lt, =, == or !=`,
		},
		"In without values": {
			selector: rules(infrav1.HostSelectorRequirement{Key: "rack", Operator: "In"}),
			want: `spec.hostSelector.matchExpressions[0]: key "rack", operator "In", values []: values: Invalid value: null: ` +
				`for 'in', 'notin' operators, values set can't be empty`,
		},
		"Exists with a value": {
			selector: rules(infrav1.HostSelectorRequirement{Key: "rack", Operator: "Exists", Values: []string{"a"}}),
			want: `spec.hostSelector.matchExpressions[0]: key "rack", operator "Exists", values ["a"]: ` +
				`values: Invalid value: ["a"]: values set must be empty for exists and does not exist`,
		},
		"= with two values": {
			selector: rules(infrav1.HostSelectorRequirement{Key: "rack", Operator: "=", Values: []string{"a", "b"}}),
			want: `spec.hostSelector.matchExpressions[0]: key "rack", operator "=", values ["a" "b"]: ` +
				`values: Invalid value: ["a","b"]: exact-match compatibility requires one single value`,
		},
		"Gt with a word": {
			selector: rules(infrav1.HostSelectorRequirement{Key: "disks", Operator: "Gt", Values: []string{"many"}}),
			want: `spec.hostSelector.matchExpressions[0]: key "disks", operator "Gt", values ["many"]: ` +
				`values[0]: Invalid value: "many": for 'Gt', 'Lt' operators, the value must be an integer`,
		},
		"the error names every invalid field and no other": {
			selector: infrav1.HostSelector{
				MatchLabels: map[string]string{"zone": "z", "rack": "a b"},
				MatchExpressions: []infrav1.HostSelectorRequirement{
					{Key: "rack", Operator: "Exists"}, {Key: "rack", Operator: "?"},
				},
			},
			want: `spec.hostSelector.matchLabels[rack]="a b": values[0][rack]: Invalid value: "a b": ` +
				`a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must ` +
				`start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for ` +
				`validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')` + "\n" +
				`spec.hostSelector.matchExpressions[1]: operator "?" is unknown, ` +
				`use In, NotIn, Exists, DoesNotExist (or !), Gt, Lt, =, == or !=`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			selector, err := host.Selector(tc.selector)
			if err == nil {
				t.Fatalf("got selector %q, want an error", selector)
			}
			if diff := cmp.Diff(tc.want, err.Error()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
