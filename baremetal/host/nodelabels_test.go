package host_test

import (
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

func TestSyncPrefixes(t *testing.T) {
	for annotation, want := range map[string][2][]string{
		"":                           {nil, nil},
		"example.com":                {{"example.com"}, nil},
		" example.com , rack.local,": {{"example.com", "rack.local"}, nil},
		"example.com/,Upper.com,ok":  {{"ok"}, {"example.com/", "Upper.com"}},
		"-bad":                       {nil, {"-bad"}},
	} {
		prefixes, refused := host.SyncPrefixes(annotation)
		if diff := cmp.Diff(want, [2][]string{prefixes, refused}); diff != "" {
			t.Errorf("%q: -want, +got:\n%s", annotation, diff)
		}
	}
}

func TestNodeLabels(t *testing.T) {
	type labels = map[string]string
	cases := map[string]struct {
		prefixes   []string
		host, node labels
		want       map[string]*string
	}{
		"a label is added":                {[]string{"a.b"}, labels{"a.b/x": "1"}, nil, map[string]*string{"a.b/x": ptr.To("1")}},
		"a label changes":                 {[]string{"a.b"}, labels{"a.b/x": "1"}, labels{"a.b/x": "2"}, map[string]*string{"a.b/x": ptr.To("1")}},
		"a label is removed":              {[]string{"a.b"}, nil, labels{"a.b/x": "2"}, map[string]*string{"a.b/x": nil}},
		"both are equal":                  {[]string{"a.b"}, labels{"a.b/x": "1"}, labels{"a.b/x": "1"}, map[string]*string{}},
		"an empty value":                  {[]string{"a.b"}, labels{"a.b/x": ""}, nil, map[string]*string{"a.b/x": ptr.To("")}},
		"another prefix":                  {[]string{"a.b"}, labels{"c.d/x": "1"}, labels{"e.f/x": "2"}, map[string]*string{}},
		"a prefix of the prefix":          {[]string{"a.b"}, labels{"x.a.b/x": "1"}, labels{"a.b.c/x": "2"}, map[string]*string{}},
		"no prefix":                       {[]string{"x"}, labels{"x": "1"}, labels{"y": "2"}, map[string]*string{}},
		"no prefixes":                     {nil, labels{"a.b/x": "1"}, labels{"a.b/y": "2"}, map[string]*string{}},
		"two prefixes":                    {[]string{"a.b", "c.d"}, labels{"a.b/x": "1", "c.d/y": "2"}, nil, map[string]*string{"a.b/x": ptr.To("1"), "c.d/y": ptr.To("2")}},
		"the host's UID":                  {[]string{"metal3.io"}, labels{"metal3.io/uuid": "1"}, labels{"metal3.io/uuid": "2"}, map[string]*string{}},
		"the host's UID on the node":      {[]string{"metal3.io"}, nil, labels{"metal3.io/uuid": "2", "metal3.io/old": "3"}, map[string]*string{"metal3.io/old": nil}},
		"the host name":                   {[]string{"kubernetes.io"}, labels{"kubernetes.io/hostname": "1"}, nil, map[string]*string{}},
		"Kubernetes' own label stays":     {[]string{"node-role.kubernetes.io"}, nil, labels{"node-role.kubernetes.io/control-plane": ""}, map[string]*string{}},
		"Kubernetes' own label comes":     {[]string{"node-role.kubernetes.io"}, labels{"node-role.kubernetes.io/worker": ""}, nil, map[string]*string{"node-role.kubernetes.io/worker": ptr.To("")}},
		"a prefix similar to Kubernetes'": {[]string{"notkubernetes.io"}, nil, labels{"notkubernetes.io/x": ""}, map[string]*string{"notkubernetes.io/x": nil}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, host.NodeLabels(tc.prefixes, tc.host, tc.node, nil)); diff != "" {
				t.Errorf("-want, +got:\n%s", diff)
			}
			all := slices.AppendSeq(slices.Collect(maps.Keys(tc.host)), maps.Keys(tc.node))
			if changes := host.NodeLabels(tc.prefixes, tc.host, tc.node, all); len(changes) > 0 {
				t.Errorf("Cluster API sets all labels, and %v change", changes)
			}
		})
	}
}

// TestNodeLabelsOfHostileNode has a Node with 100,000 labels, and an annotation that lists 200,000 labels of the Machine.
// A comparison of each label with each entry would be 20 billion comparisons.
func TestNodeLabelsOfHostileNode(t *testing.T) {
	node, ofMachine, prefixes := map[string]string{}, []string(nil), []string{"a.b"}
	for i := range 200_000 {
		label := "a.b/" + strconv.Itoa(i)
		if i < 100_000 {
			node[label] = ""
		}
		if i > 0 {
			ofMachine = append(ofMachine, label)
		}
		prefixes = append(prefixes, strconv.Itoa(i)+".c")
	}
	slices.Reverse(ofMachine)
	slices.Reverse(prefixes)
	want := map[string]*string{"a.b/0": nil}
	if diff := cmp.Diff(want, host.NodeLabels(prefixes, nil, node, ofMachine)); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
