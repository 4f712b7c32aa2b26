package pivot_test

import (
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// bringIronic sets the annotations of a host that another namespace's Ironic endpoint served in the source.
func bringIronic(host *bmov1alpha1.BareMetalHost, clusterID string) {
	host.UID = "here"
	host.Annotations[infrav1.StatusOriginAnnotation] = "there"
	host.Annotations[infrav1.IronicClusterIDAnnotation] = clusterID
}

func TestAwaitsIronic(t *testing.T) {
	away := func(clusterID string, verified bool) pivot.Neighbour {
		return pivot.Neighbour{Elsewhere: true, Endpoint: true, ClusterID: clusterID, Verified: verified}
	}
	for name, tc := range map[string]struct {
		reason string
		edit   func(*bmov1alpha1.BareMetalHost)
		around []pivot.Neighbour
		waits  bool
	}{
		"Nowhere":    {"no endpoint has arrived", nil, []pivot.Neighbour{runs}, true},
		"Unverified": {"another Ironic may answer", nil, []pivot.Neighbour{runs, away("c2", false)}, true},
		"NoEndpoint": {"its Metal3Cluster has no endpoint here", nil, []pivot.Neighbour{runs, {Elsewhere: true, ClusterID: "c2", Verified: true}}, true},
		"Another":    {"it is the endpoint of another cluster", nil, []pivot.Neighbour{runs, away("c3", true)}, true},
		"Verified":   {"it has arrived", nil, []pivot.Neighbour{runs, away("c2", true)}, false},
		"OfSeveral":  {"each of several Ironics has a BMO of its own, and its Ironic is verified", nil, []pivot.Neighbour{runs, away("c2", true), away("c3", false)}, false},
		"Local": {
			"the endpoint has moved to the own namespace", nil,
			[]pivot.Neighbour{runs, {Name: "d", Endpoint: true, ClusterID: "c2", Verified: true}}, false,
		},
		"GivenUp": {"the host is the one that was recorded", func(host *bmov1alpha1.BareMetalHost) {
			host.Annotations[infrav1.StatusOriginAnnotation] = "here"
		}, []pivot.Neighbour{runs}, false},
		"New": {"BMO of the source never saw it", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, infrav1.StatusOriginAnnotation)
		}, []pivot.Neighbour{runs}, true},
		"NoIronic": {"the provider manages no Ironic", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, infrav1.IronicClusterIDAnnotation)
		}, []pivot.Neighbour{runs}, false},
		"NotPaused": {"BMO acts on it already", func(host *bmov1alpha1.BareMetalHost) {
			delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		}, []pivot.Neighbour{runs}, false},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
			bringIronic(host, "c2")
			wantGoal, wantHold := pivot.PhaseRunning, ""
			if tc.edit != nil {
				tc.edit(host)
			}
			want := ""
			if tc.waits {
				want, wantGoal, wantHold = "c2", pivot.PhaseWaitingForEndpoint, "spec.ironic.clusterID is c2"
			}
			if got := pivot.AwaitsIronic(host, tc.around); got != want {
				t.Errorf("%s: waits for %q", tc.reason, got)
			}
			if got := pivot.GoalOf(host, tc.around); got != wantGoal {
				t.Errorf("%s: got %s", tc.reason, got)
			}
			if got := pivot.HoldOf(host, tc.around); !strings.Contains(got, wantHold) || (got == "") != !tc.waits {
				t.Errorf("%s: held with %q", tc.reason, got)
			}
		})
	}
}

// TestAHostBringsItsIronic moves a host from a source with the endpoint in another namespace to a target without it,
// and to a third cluster.
func TestAHostBringsItsIronic(t *testing.T) {
	moving := pivot.Neighbour{Name: "c", Paused: true, Epoch: 3}
	for name, tc := range map[string]struct {
		reason string
		around []pivot.Neighbour
		want   string
	}{
		"Away":    {"the endpoint is in another namespace", []pivot.Neighbour{moving, {Elsewhere: true, Endpoint: true, ClusterID: "c2"}}, "c2"},
		"Own":     {"the endpoint moves with the host", []pivot.Neighbour{{Name: "c", Paused: true, Epoch: 3, Endpoint: true, ClusterID: "c2"}}, ""},
		"None":    {"the provider manages no Ironic", []pivot.Neighbour{moving}, ""},
		"Several": {"the endpoint that serves the host is unknown", []pivot.Neighbour{moving, {Elsewhere: true, Endpoint: true, ClusterID: "c2"}, {Elsewhere: true, Endpoint: true, ClusterID: "c3"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			host := claimed()
			host = pivot.Apply(pivot.Pause, host, tc.around)
			if got := host.Annotations[infrav1.IronicClusterIDAnnotation]; got != tc.want {
				t.Errorf("%s: paused with %q", tc.reason, got)
			}
			record(t, host)
			if step := pivot.PlanHost(host, tc.around, pivot.HostFacts{Settled: true}); step != pivot.Leave {
				t.Errorf("%s: got %s", tc.reason, step)
			}
			host.Annotations[infrav1.IronicClusterIDAnnotation] = "stale"
			host.Annotations[infrav1.StatusOriginAnnotation] = string(host.UID)
			if step := pivot.PlanHost(host, tc.around, pivot.HostFacts{Settled: true}); step != pivot.Stamp {
				t.Errorf("%s: another Ironic serves it, and the host gets %s", tc.reason, step)
			}
			if got := pivot.Apply(pivot.Stamp, host, tc.around).Annotations[infrav1.IronicClusterIDAnnotation]; got != tc.want {
				t.Errorf("%s: stamped with %q", tc.reason, got)
			}
		})
	}
	host := claimed()
	host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	bringIronic(host, "c2")
	local := pivot.Neighbour{Name: "c", Paused: true, Epoch: 3, Endpoint: true, ClusterID: "c3"}
	if got := pivot.Apply(pivot.Stamp, host, []pivot.Neighbour{local}).Annotations[infrav1.IronicClusterIDAnnotation]; got != "c2" {
		t.Errorf("the next move takes a host along that waits for %q beside another endpoint", got)
	}
	host.Annotations[infrav1.MoveEpochAnnotation] = "1"
	stamped := pivot.Apply(pivot.Stamp, host, []pivot.Neighbour{{Name: "c", Paused: true, Ungated: true, Epoch: 3}}).Annotations
	if stamped[infrav1.MoveEpochAnnotation]+stamped[infrav1.IronicClusterIDAnnotation] != "" {
		t.Errorf("no Cluster has block-move, and the host has %v", stamped)
	}
	if got := pivot.Apply(pivot.Stamp, host, []pivot.Neighbour{moving}).Annotations[infrav1.IronicClusterIDAnnotation]; got != "c2" {
		t.Errorf("the next move takes a host along that waits for %q", got)
	}
	if got, has := pivot.Apply(pivot.Resume, host, []pivot.Neighbour{runs}).Annotations[infrav1.IronicClusterIDAnnotation]; has {
		t.Errorf("the host runs, and says %q", got)
	}
}

// TestAsForeign has an endpoint of another namespace that another management cluster has taken over.
func TestAsForeign(t *testing.T) {
	around := func() []pivot.Neighbour {
		return []pivot.Neighbour{runs, {Elsewhere: true, Endpoint: true, ClusterID: "c2", Verified: true, Superseded: true}}
	}
	host := claimed()
	if goal := pivot.GoalOf(host, around()); goal != pivot.PhaseFenced {
		t.Errorf("a manager of all namespaces: got %s, want %s", goal, pivot.PhaseFenced)
	}
	if goal := pivot.GoalOf(host, pivot.AsForeign(around())); goal != pivot.PhaseRunning {
		t.Errorf("a manager of one namespace: got %s, want %s", goal, pivot.PhaseRunning)
	}
	host.Annotations[infrav1.IronicClusterIDAnnotation] = "c2"
	if goal := pivot.GoalOf(host, pivot.AsForeign(around())); goal != pivot.PhaseFenced {
		t.Errorf("a host that names the endpoint: got %s, want %s", goal, pivot.PhaseFenced)
	}
}
