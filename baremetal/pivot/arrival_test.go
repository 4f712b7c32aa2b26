package pivot_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// leftover returns a host that matches the facts: the origin of the annotation, the status of the object compared with
// it, and whether the object is being deleted.
func leftover(t *testing.T, origin, status, deleted string) *bmov1alpha1.BareMetalHost {
	t.Helper()
	host := claimed()
	host.UID = "here"
	record(t, host)
	switch origin {
	case "missing":
		delete(host.Annotations, bmov1alpha1.StatusAnnotation)
	case "damaged":
		host.Annotations[bmov1alpha1.StatusAnnotation] = "{"
	case "own":
		host.Annotations[infrav1.StatusOriginAnnotation] = "here"
	case "foreign":
		host.Annotations[infrav1.StatusOriginAnnotation] = "there"
	}
	at := func(after time.Duration) {
		changed := metav1.NewTime(seenAt.Add(after))
		host.Status.LastUpdated = &changed
	}
	switch status {
	case "none":
		host.Status = bmov1alpha1.BareMetalHostStatus{}
	case "older":
		at(-time.Hour)
	case "newer":
		at(time.Hour)
	case "different":
		host.Status.Provisioning.State = bmov1alpha1.StateAvailable
	}
	if deleted == "deleted" {
		host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	return host
}

// TestArrivalOf tests every combination of the facts, and the step of PlanHost for each arrival.
func TestArrivalOf(t *testing.T) {
	table := [][]string{
		// annotation, status of the object, being deleted, arrival
		{"missing|damaged", "*", "*", "NotArrived"},
		{"own|unmarked", "none|same|newer|different", "*", "NotArrived"},
		{"*", "*", "deleted", "Deleted"},
		{"*", "none|same", "*", "Taken"},
		{"*", "newer", "*", "Outdated"},
		{"*", "*", "*", "Pending"},
	}
	for _, facts := range combinations(
		[]string{"missing", "damaged", "unmarked", "own", "foreign"},
		[]string{"none", "same", "older", "newer", "different"}, []string{"deleted", "stays"},
	) {
		host := leftover(t, facts[0], facts[1], facts[2])
		got := pivot.ArrivalOf(host)
		if want := answer(table, facts); string(got) != want {
			t.Errorf("%v: got %s, want %s", facts, got, want)
		}
		for _, by := range []string{infrav1.HostPausedByProvider, "maintenance"} {
			host.Annotations[bmov1alpha1.PausedAnnotation] = by
			for _, around := range [][]pivot.Neighbour{{paused}, {runs}, {unverified}, nil} {
				step := pivot.PlanHost(host, around, pivot.HostFacts{Settled: true})
				held := got == pivot.ArrivalDeleted || got == pivot.ArrivalOutdated
				if held != (step == pivot.Keep) || (got == pivot.ArrivalPending) != (step == pivot.Restore) {
					t.Errorf("%v, %s: the step is %s for an arrival that is %s", facts, by, step, got)
				}
			}
		}
	}
}

// TestArrivedDeleted tests every combination of the facts, and that only such a host is kept.
func TestArrivedDeleted(t *testing.T) {
	const lastMove pivot.Epoch = 5
	table := [][]string{
		// pause, deletion, annotation, epoch of the host, was being deleted when it arrived
		{"none", "*", "*", "*", "false"},
		{"*", "stays|leaving", "*", "*", "false"},
		{"*", "*", "foreign", "*", "true"},
		{"*", "*", "*", "5", "true"},
		{"*", "*", "*", "*", "false"},
	}
	arrived := runs
	arrived.Epoch, arrived.Arrival = lastMove.Unpaused(), lastMove
	for _, facts := range combinations(
		[]string{"none", infrav1.HostPausedByProvider, "maintenance"}, []string{"stays", "leaving", "deleted"},
		[]string{"missing", "unmarked", "own", "foreign"}, []string{"", "0", "5", "6", "7"},
	) {
		host := leftover(t, facts[2], "same", facts[1])
		if facts[0] != "none" {
			host.Annotations[bmov1alpha1.PausedAnnotation] = facts[0]
		}
		if facts[1] == "leaving" {
			host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
			host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
		}
		if facts[3] != "" {
			host.Annotations[infrav1.MoveEpochAnnotation] = facts[3]
		}
		got := pivot.ArrivedDeleted(host, []pivot.Neighbour{arrived})
		if want := answer(table, facts) == "true"; got != want {
			t.Errorf("%v: got %t", facts, got)
		}
		step := pivot.PlanHost(host, []pivot.Neighbour{arrived}, pivot.HostFacts{})
		if got != (step == pivot.Keep) {
			t.Errorf("%v: the step is %s", facts, step)
		}
		if pivot.ArrivedDeleted(host, []pivot.Neighbour{runs}) != (got && facts[2] == "foreign") {
			t.Errorf("%v: a move that was aborted counts as an arrival", facts)
		}
	}
}

// TestResumedArrival tests a host that BMO continues with the status that arrived.
func TestResumedArrival(t *testing.T) {
	host := leftover(t, "foreign", "same", "stays")
	host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	step := pivot.PlanHost(host, []pivot.Neighbour{runs}, pivot.HostFacts{})
	if step != pivot.Resume {
		t.Fatalf("got %s", step)
	}
	if _, marked := pivot.Apply(step, host, nil).Annotations[infrav1.StatusOriginAnnotation]; marked {
		t.Error("the host still says where its status comes from")
	}
}

func TestArrivedStatus(t *testing.T) {
	hardware := map[string]any{"hostname": "x"}
	got, err := pivot.ArrivedStatus(`{"poweredOn":true}`, map[string]any{"hardware": hardware, "errorMessage": "old"})
	if diff := cmp.Diff(map[string]any{"poweredOn": true, "hardware": hardware}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if _, err := pivot.ArrivedStatus("{", nil); err == nil {
		t.Error("an annotation that cannot be parsed is an error")
	}
}

func TestLeftover(t *testing.T) {
	for _, facts := range combinations([]string{"none", "same"}, []string{"deleted", "stays"}) {
		got := pivot.Leftover(leftover(t, "missing", facts[0], facts[1]))
		if want := facts[0] != "none" || facts[1] == "deleted"; (len(got) > 0) != want {
			t.Errorf("%v: got %q", facts, got)
		}
	}
}

// TestHeldArrivals tests what ReadyForMove and block-move report about hosts that arrived on leftovers.
func TestHeldArrivals(t *testing.T) {
	for status, deleted := range map[string]string{"older": "stays", "newer": "stays", "same": "deleted"} {
		host := leftover(t, "foreign", status, deleted)
		host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		facts := pivot.MoveFacts{Hosts: []*bmov1alpha1.BareMetalHost{host}, Around: []pivot.Neighbour{paused}}
		facts.Naming = []metav1.Object{consumer()}
		if lost, waits := pivot.MayLeave(facts); len(lost) != 0 || len(waits) != 1 {
			t.Errorf("%s, %s: lost %q, waits %q", status, deleted, lost, waits)
		}
	}
	host := claimed()
	host.Annotations = map[string]string{infrav1.DeleteForMoveAnnotation: ""}
	facts := pivot.MoveFacts{Hosts: []*bmov1alpha1.BareMetalHost{host}, Naming: []metav1.Object{consumer()}}
	if got := pivot.Obstacles(facts); len(got) != 1 {
		t.Errorf("a leftover is an obstacle, and it says %q", got)
	}
}
