package pivot_test

import (
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestPhaseOf goes through every combination of the facts.
func TestPhaseOf(t *testing.T) {
	table := [][]string{
		// moving, busy, cluster, paused by, recorded, phase
		{"moving", "*", "*", "*", "*", "Leaving"},
		{"*", "busy", "*", "*", "*", "Busy"},
		{"*", "*", "paused", "us", "recorded", "Parked"},
		{"*", "*", "paused", "user", "recorded", "Parked"},
		{"*", "*", "*", "user", "*", "PausedByUser"},
		{"*", "*", "paused", "*", "*", "Parking"},
		{"*", "*", "*", "nobody", "*", "Running"},
		{"*", "*", "verified", "us", "*", "Resuming"},
		{"*", "*", "*", "us", "*", "WaitingForEndpoint"},
	}
	for _, facts := range combinations(
		[]string{"", "moving"}, []string{"", "busy"}, []string{"paused", "verified", "unverified", "missing"},
		[]string{"nobody", "us", "user"}, []string{"", "recorded"},
	) {
		host := claimed()
		if facts[1] != "" {
			host.Status.Provisioning.State = bmov1alpha1.StateProvisioning
		}
		if facts[4] != "" {
			record(t, host)
		}
		switch facts[3] {
		case "us":
			host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		case "user":
			host.Annotations[bmov1alpha1.PausedAnnotation] = "maintenance"
		}
		if facts[0] != "" {
			host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
		}
		around := []pivot.Neighbour{{Name: "c", Paused: facts[2] == "paused", Verified: facts[2] == "verified"}}
		if facts[2] == "missing" {
			around = nil
		}
		if got, want := string(pivot.PhaseOf(host, around)), answer(table, facts); got != want {
			t.Errorf("%v: got %s, want %s", facts, got, want)
		}
	}
}
