package pivot_test

import (
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestPhaseOfABusyHost tests hosts during an operation of BMO that move meanwhile, or stay paused because BMO would
// begin again.
func TestPhaseOfABusyHost(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		paused bool
		around pivot.Neighbour
		edits  []func(*bmov1alpha1.BareMetalHost)
		want   pivot.Phase
	}{
		"Interrupted": {"the pause lasts until its Node is known", true, heldElsewhere(), nil, pivot.PhaseProvisioningHeld},
		"Beginning":   {"the manager has not paused it", false, heldElsewhere(), nil, pivot.PhaseBusy},
		"Allowed":     {"no move is under way", false, runs, allowed(), pivot.PhaseBusy},
		"Parking":     {"the move does not wait for it", false, paused, allowed(), pivot.PhaseParking},
		"Parked":      {"Ironic works on it meanwhile", true, paused, allowed(), pivot.PhaseParked},
		"Resuming":    {"BMO continues there", true, runs, allowed(), pivot.PhaseResuming},
	} {
		t.Run(name, func(t *testing.T) {
			host := interrupted()
			for _, edit := range tc.edits {
				edit(host)
			}
			if record(t, host); !tc.paused {
				delete(host.Annotations, bmov1alpha1.PausedAnnotation)
			}
			if got := pivot.PhaseOf(host, []pivot.Neighbour{tc.around}); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// allowed returns edits for a host that may move while it is deprovisioned.
func allowed() []func(*bmov1alpha1.BareMetalHost) {
	return []func(*bmov1alpha1.BareMetalHost){
		annotated(infrav1.MoveWhileBusyAnnotation, ""),
		func(host *bmov1alpha1.BareMetalHost) {
			host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
		},
	}
}

// TestPhaseOf tests every combination of the facts.
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
