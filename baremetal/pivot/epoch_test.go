package pivot_test

import (
	"strconv"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestEpochOf(t *testing.T) {
	for value, want := range map[string]pivot.Epoch{"": 0, "7": 7, "-3": 0, "seven": 0, "7.5": 0, "9223372036854775807": 0} {
		host := claimed()
		host.Annotations[infrav1.MoveEpochAnnotation] = value
		if got := pivot.EpochOf(host); got != want {
			t.Errorf("%q: got %d, want %d", value, got, want)
		}
	}
	none := &infrav1.Metal3Cluster{}
	if got := pivot.EpochOf(none); got != 0 {
		t.Errorf("without annotations: got %d", got)
	}
	if allocations := testing.AllocsPerRun(20, func() { pivot.EpochOf(none) }); allocations != 0 {
		t.Errorf("without annotations: got %v allocations", allocations)
	}
}

func TestDepart(t *testing.T) {
	at := func(epochs ...pivot.Epoch) []pivot.Neighbour {
		around := []pivot.Neighbour{{Elsewhere: true, Epoch: 99}}
		for _, epoch := range epochs {
			around = append(around, pivot.Neighbour{Name: "c", Epoch: epoch})
		}
		return around
	}
	for name, tc := range map[string]struct {
		reason string
		own    pivot.Epoch
		around []pivot.Neighbour
		want   pivot.Epoch
	}{
		"First":     {"the first move has epoch 1", 0, at(0), 1},
		"Next":      {"an epoch grows", 4, at(4), 5},
		"Begun":     {"a second reconcile keeps the epoch of the move", 5, at(5), 5},
		"Joins":     {"another Cluster of the namespace has begun the move", 4, at(4, 5), 5},
		"Catches":   {"a free host has one epoch for both", 0, at(0, 6), 7},
		"Stays":     {"a paused Cluster of an older move does not count", 6, at(6, 3), 7},
		"Elsewhere": {"the epochs of another namespace do not count", 2, at(), 3},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pivot.Depart(tc.own, tc.around); got != tc.want {
				t.Errorf("%s: got %d, want %d", tc.reason, got, tc.want)
			}
		})
	}
}

// TestNotAbandonedBesideAnotherCluster tests free hosts in a namespace in which another Cluster has arrived with epoch
// 3. Epochs of Clusters from different origins cannot be compared.
func TestNotAbandonedBesideAnotherCluster(t *testing.T) {
	before := pivot.Neighbour{Name: "before", Verified: true, Epoch: 4, Arrival: 3}
	for name, tc := range map[string]struct {
		reason string
		with   pivot.Neighbour
		want   bool
	}{
		"Arrives": {"its Cluster is paused", pivot.Neighbour{Name: "c", Paused: true, Epoch: 1}, false},
		"Arrived": {"its Cluster runs", pivot.Neighbour{Name: "c", Verified: true, Epoch: 2, Arrival: 1}, false},
		"Left":    {"no Cluster has its epoch", pivot.Neighbour{Name: "c", Verified: true, Epoch: 6, Arrival: 5}, true},
		"Later":   {"its Cluster moves again without it", pivot.Neighbour{Name: "c", Paused: true, Epoch: 5, Arrival: 3}, true},
	} {
		t.Run(name, func(t *testing.T) {
			host := free()
			host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
			host.Annotations[infrav1.MoveEpochAnnotation] = "1"
			if got := pivot.Abandoned(host, []pivot.Neighbour{before, tc.with}); got != tc.want {
				t.Errorf("%s: got %t", tc.reason, got)
			}
		})
	}
}

// TestAbandoned tests every combination of the facts, and the step of PlanHost for an abandoned host.
func TestAbandoned(t *testing.T) {
	table := [][]string{
		// paused by, origin of the status, epoch of the host, epoch of the arrival, abandoned
		{"nobody", "*", "*", "*", "false"},
		{"*", "*", "3", "5", "true"},
		{"*", "*", "*", "*", "false"},
	}
	for _, facts := range combinations(
		[]string{"nobody", "ours", "user"}, []string{"missing", "own", "foreign"}, []string{"0", "3", "5", "7"},
		[]string{"0", "3", "5"},
	) {
		host := leftover(t, facts[1], "none", "stays")
		delete(host.Annotations, bmov1alpha1.PausedAnnotation)
		if facts[0] != "nobody" {
			host.Annotations[bmov1alpha1.PausedAnnotation] = map[string]string{"ours": infrav1.HostPausedByProvider}[facts[0]]
		}
		if facts[1] == "missing" {
			delete(host.Annotations, infrav1.StatusOriginAnnotation)
		}
		host.Annotations[infrav1.MoveEpochAnnotation] = facts[2]
		arrival, err := strconv.Atoi(facts[3])
		if err != nil {
			t.Fatal(err)
		}
		for _, around := range []pivot.Neighbour{runs, unverified, ungated, paused} {
			around.Arrival, around.Epoch = pivot.Epoch(arrival), pivot.Epoch(arrival+1)
			got := pivot.Abandoned(host, []pivot.Neighbour{around})
			if want := answer(table, facts); strconv.FormatBool(got) != want {
				t.Errorf("%v: got %v, want %s", facts, got, want)
			}
			step := pivot.PlanHost(host, []pivot.Neighbour{around}, pivot.HostFacts{Settled: true})
			if got != (step == pivot.Keep) {
				t.Errorf("%v: abandoned is %v, and the step is %s", facts, got, step)
			}
			_, waits := pivot.MayLeave(pivot.MoveFacts{
				Hosts: []*bmov1alpha1.BareMetalHost{host}, Around: []pivot.Neighbour{around},
			})
			named := strings.Contains(strings.Join(texts(waits), ";"), "is a leftover of an earlier move")
			if got != named {
				t.Errorf("%v: abandoned is %v, and the obstacles are %q", facts, got, waits)
			}
		}
	}
}

// TestHalfCopyAndSecondMove follows a host that arrives, and one that was deleted in the source after a half copy.
func TestHalfCopyAndSecondMove(t *testing.T) {
	around := func(side pivot.Neighbour, epoch, arrival pivot.Epoch) []pivot.Neighbour {
		side.Epoch, side.Arrival = epoch, arrival
		return []pivot.Neighbour{side}
	}
	settled := pivot.HostFacts{Settled: true}
	park := func(host *bmov1alpha1.BareMetalHost, epoch pivot.Epoch) *bmov1alpha1.BareMetalHost {
		t.Helper()
		host = pivot.Apply(pivot.PlanHost(host, around(paused, epoch, 0), settled), host, around(paused, epoch, 0))
		record(t, host)
		host.Annotations[infrav1.StatusOriginAnnotation] = "source"
		if got := pivot.PlanHost(host, around(paused, epoch, 0), settled); got != pivot.Leave {
			t.Fatalf("a host that is parked for move %d: got %s", epoch, got)
		}
		return host
	}
	arrive := func(host *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
		copied := host.DeepCopy()
		copied.UID, copied.Status = "target", bmov1alpha1.BareMetalHostStatus{}
		return copied
	}
	source := claimed()
	source.UID = "source"
	source = park(source, 1)
	left := arrive(source)

	// The first move is aborted, and the second one begins before the endpoint was verified and the host resumed.
	if got := pivot.PlanHost(source, around(unverified, 2, 1), settled); got != pivot.Leave {
		t.Errorf("the source before its endpoint is proven: got %s", got)
	}
	if got := pivot.PlanHost(source, around(paused, 3, 1), settled); got != pivot.Stamp {
		t.Errorf("a host that is parked for an earlier move: got %s", got)
	}
	source = park(source, 3)
	arrived := arrive(source)

	for name, tc := range map[string]struct {
		side           pivot.Neighbour
		epoch, arrival pivot.Epoch
		arrived, left  pivot.Step
	}{
		"Paused":        {ungatedPaused, 3, 0, pivot.Leave, pivot.Leave},
		"Unproven":      {unverified, 4, 3, pivot.Leave, pivot.Keep},
		"Running":       {runs, 4, 3, pivot.Resume, pivot.Keep},
		"Paused again":  {paused, 5, 3, pivot.Stamp, pivot.Keep},
		"Old release":   {runs, 0, 0, pivot.Resume, pivot.Resume},
		"First arrival": {runs, 2, 1, pivot.Resume, pivot.Resume},
	} {
		if got := pivot.PlanHost(arrived, around(tc.side, tc.epoch, tc.arrival), settled); got != tc.arrived {
			t.Errorf("%s: the host that arrived: got %s, want %s", name, got, tc.arrived)
		}
		if got := pivot.PlanHost(left, around(tc.side, tc.epoch, tc.arrival), settled); got != tc.left {
			t.Errorf("%s: the host that was left: got %s, want %s", name, got, tc.left)
		}
	}
	resumed := pivot.Apply(pivot.Resume, arrived, around(runs, 4, 3))
	if got := pivot.EpochOf(resumed); got != 0 {
		t.Errorf("a host that runs has epoch %d", got)
	}
}

// TestFreeHostArrivesBeforeItsCluster follows a free host that arrives in a namespace with a running Cluster.
func TestFreeHostArrivesBeforeItsCluster(t *testing.T) {
	resident := pivot.Neighbour{Name: "resident", Verified: true, Endpoint: true, ClusterID: "c2"}
	host := pausedHost(free(), annotated(infrav1.StatusOriginAnnotation, "there"), annotated(infrav1.MoveEpochAnnotation, "1"))
	host.UID = "here"
	record(t, host)
	host.Status = bmov1alpha1.BareMetalHostStatus{}
	for _, step := range []struct {
		reason string
		moves  []pivot.Neighbour
		want   pivot.Step
		phase  pivot.Phase
	}{
		{"nothing else has arrived", nil, pivot.Leave, pivot.PhaseWaitingForEndpoint},
		{"its Metal3Cluster has not arrived", []pivot.Neighbour{{Name: "c", Paused: true, Ungated: true, Endpoint: true}}, pivot.Leave, pivot.PhaseWaitingForEndpoint},
		{"its Cluster is paused", []pivot.Neighbour{{Name: "c", Paused: true, Ungated: true, Verified: true, Epoch: 1}}, pivot.Leave, pivot.PhaseParked},
		{"the manager has not ended the move", []pivot.Neighbour{{Name: "c", Ungated: true, Verified: true, Epoch: 1}}, pivot.Leave, pivot.PhaseWaitingForEndpoint},
		{"its Cluster runs", []pivot.Neighbour{{Name: "c", Verified: true, Epoch: 2, Arrival: 1}}, pivot.Resume, pivot.PhaseResuming},
	} {
		around := append([]pivot.Neighbour{resident}, step.moves...)
		if got := pivot.PlanHost(host, around, pivot.HostFacts{Settled: true}); got != step.want {
			t.Errorf("%s: got step %s, want %s", step.reason, got, step.want)
		}
		if got := pivot.PhaseOf(host, around); got != step.phase {
			t.Errorf("%s: got phase %s, want %s", step.reason, got, step.phase)
		}
		if obstacles := pivot.UnpauseObstacles(host, around[:1], pivot.Departure{}); len(obstacles) > 0 {
			t.Errorf("%s: the user may decide that its Cluster does not arrive: %v", step.reason, obstacles)
		}
	}
}

// TestGateWaitsForEpoch requires that a host that is parked for an earlier move keeps block-move.
func TestGateWaitsForEpoch(t *testing.T) {
	host := claimed()
	host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	host.Annotations[infrav1.MoveEpochAnnotation] = "1"
	record(t, host)
	moving := paused
	moving.Epoch = 3
	facts := pivot.MoveFacts{Hosts: []*bmov1alpha1.BareMetalHost{host}, Around: []pivot.Neighbour{moving}}
	waiting := func() bool {
		_, waits := pivot.MayLeave(facts)
		return strings.Contains(strings.Join(texts(waits), ";"), "host host-0 is being paused")
	}
	if !waiting() {
		t.Error("the gate opens with a host of another move")
	}
	if phase := pivot.PhaseOf(host, facts.Around); phase != pivot.PhaseParking {
		t.Errorf("got %s", phase)
	}
	host.Annotations[infrav1.MoveEpochAnnotation] = "3"
	if waiting() {
		t.Error("the gate stays closed")
	}
}
