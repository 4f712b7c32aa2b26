package pivot_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func held(kind infrav1.HolderKind, name string) *infrav1.IronicHolder {
	return &infrav1.IronicHolder{Kind: kind, Name: name}
}

func TestJudge(t *testing.T) {
	cluster := pivot.Cluster{
		ClusterID: "c1", Address: "192.0.2.2:6385", ControlPlane: []string{"cp-0", "cp-1"},
		Hosts: []string{"metal3~a", "metal3~b", "metal3~c"},
	}
	by := func(conductors ...string) pivot.Sighting {
		return pivot.Sighting{Answer: pivot.Answers, Conductors: conductors}
	}
	two := int32(2)
	none := int32(0)
	cases := map[string]struct {
		reason string
		seen   pivot.Sighting
		holder *infrav1.IronicHolder
		known  *int32
		want   string
		says   string
	}{
		"ControlPlane": {
			"a node of the control plane", by("c1-cp-1"), held(infrav1.HolderControlPlane, "cp-1"), &none, "",
			"ControlPlane cp-1 answers on 192.0.2.2:6385",
		},
		"Management": {
			"a node that is not of the control plane", by("c1-m"), held(infrav1.HolderManagement, "m"), &none, "",
			"Management m answers on 192.0.2.2:6385",
		},
		"Both": {
			"the control-plane node counts, in any order", by("c1-a", "c1-cp-0"),
			held(infrav1.HolderControlPlane, "cp-0"), &none, "", "cp-0",
		},
		"Several": {
			"the choice among several conductors is stable", by("c1-z", "c1-m"), held(infrav1.HolderManagement, "m"), &none, "", "m",
		},
		"Foreign": {
			"another cluster", by("c2-cp-0", "c2-a"), held(infrav1.HolderForeign, "c2-a"), nil,
			infrav1.EndpointForeignReason, "does not belong to clusterID c1",
		},
		"LongerID": {
			"a prefix ends with a dash", by("c11-cp-0"), held(infrav1.HolderForeign, "c11-cp-0"), nil,
			infrav1.EndpointForeignReason, "c11-cp-0",
		},
		"NoNode": {
			"a prefix alone is no node", by("c1-"), held(infrav1.HolderForeign, "c1-"), nil,
			infrav1.EndpointForeignReason, "c1-",
		},
		"Mixed": {
			"an Ironic that two clusters share belongs to both", by("c0-x", "c1-cp-0"),
			held(infrav1.HolderControlPlane, "cp-0"), &none, "", "cp-0",
		},
		"Hosts": {
			"hosts of other clusters and machines that are no hosts do not count",
			pivot.Sighting{Answer: pivot.Answers, Conductors: []string{"c1-m"}, Nodes: map[string]string{
				"metal3~a": "active", "metal3~c": "available", "metal3~stranger": "active",
			}},
			held(infrav1.HolderManagement, "m"), &two, "", "m",
		},
		"Unfinished": {
			"the BMCs of these hosts have not answered yet",
			pivot.Sighting{Answer: pivot.Answers, Conductors: []string{"c1-m"}, Nodes: map[string]string{
				"metal3~a": "enroll", "metal3~b": "adopt failed", "metal3~c": "adopting",
			}},
			held(infrav1.HolderManagement, "m"), &none, "", "m",
		},
		"Starting": {
			"an Ironic without conductors has no owner", by(), nil, nil, infrav1.EndpointStartingReason, "start",
		},
		"Nobody": {
			"no server answers", pivot.Sighting{Answer: pivot.Unreachable, Detail: "there is no connection"},
			held(infrav1.HolderNone, ""), nil, infrav1.EndpointUnreachableReason, "there is no connection",
		},
		"Untrusted": {
			"an untrusted server has no holder", pivot.Sighting{Answer: pivot.Untrusted, Detail: "expired"}, nil, nil,
			infrav1.EndpointUntrustedReason, "expired",
		},
		"Unauthorized": {
			"other credentials", pivot.Sighting{Answer: pivot.Unauthorized, Detail: "refused"}, nil, nil,
			infrav1.EndpointUnauthorizedReason, "refused",
		},
		"Unsupported": {
			"too old", pivot.Sighting{Answer: pivot.Unsupported, Detail: "1.50"}, nil, nil,
			infrav1.EndpointUnsupportedReason, "1.50",
		},
		"Broken": {
			"no Ironic", pivot.Sighting{Answer: pivot.Broken, Detail: "status 500"}, nil, nil,
			infrav1.EndpointBrokenReason, "status 500",
		},
		"Unknown": {
			"an unknown kind of answer", pivot.Sighting{Answer: "New"}, nil, nil, infrav1.EndpointBrokenReason, "",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := pivot.Judge(cluster, tc.seen)
			if diff := cmp.Diff(tc.holder, got.Holder); diff != "" {
				t.Errorf("%s: holder: -want +got:\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.known, got.KnownHosts); diff != "" {
				t.Errorf("%s: known hosts: -want +got:\n%s", tc.reason, diff)
			}
			if got.Outcome.Reason != tc.want || got.Outcome.IsDone() != (tc.want == "") || got.Outcome.IsBlocked() {
				t.Errorf("%s: got %+v, want %q", tc.reason, got.Outcome, tc.want)
			}
			if message := got.Message + got.Outcome.Message; !strings.Contains(message, tc.says) {
				t.Errorf("%s: %q does not say %q", tc.reason, message, tc.says)
			}
		})
	}
}

// TestJudgeWithoutAllNodes tests the time after a move until the manager has observed all nodes again.
func TestJudgeWithoutAllNodes(t *testing.T) {
	cluster := pivot.Cluster{
		ClusterID: "c1", ControlPlane: []string{"cp-0"}, Incomplete: true, Before: held(infrav1.HolderManagement, "m"),
	}
	for conductor, want := range map[string]*infrav1.IronicHolder{
		"c1-cp-0": held(infrav1.HolderControlPlane, "cp-0"),
		"c1-cp-1": nil,
		"c1-m":    held(infrav1.HolderManagement, "m"),
		"c2-cp-0": held(infrav1.HolderForeign, "c2-cp-0"),
	} {
		got := pivot.Judge(cluster, pivot.Sighting{Answer: pivot.Answers, Conductors: []string{conductor}})
		if diff := cmp.Diff(want, got.Holder); diff != "" {
			t.Errorf("%s: -want +got:\n%s", conductor, diff)
		}
		if ours := strings.HasPrefix(conductor, "c1-"); got.Outcome.IsDone() != ours || ours && got.Message == "" {
			t.Errorf("%s: got %+v, %q: it is ours or not, whatever its node is", conductor, got.Outcome, got.Message)
		}
	}
}

// TestTerm tests an Ironic that restarts on the same node with an empty database.
func TestTerm(t *testing.T) {
	cluster := pivot.Cluster{ClusterID: "c1", ControlPlane: []string{"cp-0"}}
	seen := pivot.Sighting{
		Answer: pivot.Answers, Conductors: []string{"c1-cp-0"}, Terms: map[string]string{"c1-cp-0": "then", "c1-m": "before"},
	}
	first := pivot.Judge(cluster, seen).Holder
	if want := held(infrav1.HolderControlPlane, "cp-0"); first.Term != "then" || first.Name != want.Name {
		t.Fatalf("got %+v", first)
	}
	host := claimed()
	host.Annotations[infrav1.IronicHolderAnnotation] = pivot.HolderName(*first)
	step := func(term string) pivot.Step {
		holder := *first
		holder.Term = term
		around := []pivot.Neighbour{{Name: "c", Verified: true, Endpoint: true, Holder: &holder}}
		return pivot.PlanHost(host, around, pivot.HostFacts{Settled: true})
	}
	for term, want := range map[string]pivot.Step{"then": pivot.Leave, "later": pivot.Nudge, "": pivot.Leave} {
		if got := step(term); got != want {
			t.Errorf("term %q: got %s, want %s", term, got, want)
		}
	}
	cluster.ControlPlane, cluster.Incomplete, cluster.Before = nil, true, &infrav1.IronicHolder{
		Kind: infrav1.HolderManagement, Name: "cp-0", Term: "before",
	}
	if again := pivot.Judge(cluster, seen).Holder; again == nil || again.Term != "then" {
		t.Errorf("a restart does not make the management cluster unknown: got %+v", again)
	}
}

func TestClusterID(t *testing.T) {
	first, second := pivot.ClusterID("uid-1"), pivot.ClusterID("uid-2")
	if len(first) != 8 || strings.Trim(first, "0123456789abcdef") != "" {
		t.Errorf("%q is not eight hexadecimal digits", first)
	}
	if first == second || first != pivot.ClusterID("uid-1") {
		t.Errorf("got %q and %q, want one ID for each UID", first, second)
	}
}
