package pivot_test

import (
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

func TestProgressOf(t *testing.T) {
	parked := func(epoch string) *bmov1alpha1.BareMetalHost {
		host := claimed()
		host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		host.Annotations[infrav1.MoveEpochAnnotation] = epoch
		record(t, host)
		return host
	}
	busy, other := claimed(), claimed()
	busy.Status.Provisioning.State = bmov1alpha1.StateProvisioning
	other.Labels = map[string]string{"cluster.x-k8s.io/cluster-name": "other"}
	superseded, arrived := runs, unverified
	superseded.Superseded, arrived.Arrival = true, 3
	for name, tc := range map[string]struct {
		reason string
		gated  bool
		around pivot.Neighbour
		hosts  []*bmov1alpha1.BareMetalHost
		want   pivot.Progress
	}{
		"None": {"nothing moves", true, runs, []*bmov1alpha1.BareMetalHost{claimed(), busy}, pivot.Progress{Reason: "NoMove"}},
		"Parking": {
			"the gate is closed", true, paused, []*bmov1alpha1.BareMetalHost{parked("1"), claimed(), busy, other},
			pivot.Progress{true, "ParkingHosts", "BareMetalHosts: 1 Busy, 1 Parking, 1 Parked"},
		},
		"Copying": {
			"the gate is open", false, ungatedPaused, []*bmov1alpha1.BareMetalHost{parked("1")},
			pivot.Progress{true, "HostsPaused", "BareMetalHosts: 1 Parked"},
		},
		"Arrived": {
			"a host was left by an earlier move", true, arrived,
			[]*bmov1alpha1.BareMetalHost{parked("3"), parked("1"), free()},
			pivot.Progress{true, "ResumingHosts", "BareMetalHosts: 1 Running, 1 WaitingForEndpoint, 1 ArrivalHeld"},
		},
		"Waiting": {
			"the endpoint is not ready", true, unverified, []*bmov1alpha1.BareMetalHost{parked("1")},
			pivot.Progress{true, "ResumingHosts", "BareMetalHosts: 1 WaitingForEndpoint"},
		},
		"Resuming": {
			"the pause ends next", true, runs, []*bmov1alpha1.BareMetalHost{parked("1")},
			pivot.Progress{true, "ResumingHosts", "BareMetalHosts: 1 Resuming"},
		},
		"Leftover": {
			"the last move did not bring it", true, arrived, []*bmov1alpha1.BareMetalHost{parked("1")},
			pivot.Progress{true, "ResumingHosts", "BareMetalHosts: 1 ArrivalHeld"},
		},
		"ByUser": {
			"only the user ends the pause", true, runs,
			[]*bmov1alpha1.BareMetalHost{pausedHost(parked("1"), annotated(bmov1alpha1.PausedAnnotation, "maintenance"))},
			pivot.Progress{Reason: "NoMove"},
		},
		"Held": {
			"a host that is held for its node is in no move", true, unverified, []*bmov1alpha1.BareMetalHost{parked("0")},
			pivot.Progress{Reason: "NoMove"},
		},
		"Fenced": {
			"another management cluster has it", true, superseded, []*bmov1alpha1.BareMetalHost{parked("1")},
			pivot.Progress{true, "HostsFenced", "BareMetalHosts: 1 Fenced"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			around := []pivot.Neighbour{tc.around}
			if got := pivot.ProgressOf("c", tc.around.Paused, tc.gated, tc.hosts, around); got != tc.want {
				t.Errorf("%s: got %+v, want %+v", tc.reason, got, tc.want)
			}
		})
	}
}

// TestPauseSaysWhy requires that each step that pauses a host records the reason for as long as the host is paused.
func TestPauseSaysWhy(t *testing.T) {
	around := []pivot.Neighbour{paused}
	said := map[string]pivot.Step{}
	for _, step := range []pivot.Step{pivot.Pause, pivot.FenceOff, pivot.Hold} {
		host := pivot.Apply(step, claimed(), around)
		reason := host.Annotations[infrav1.PauseReasonAnnotation]
		if other, twice := said[reason]; twice || reason == "" {
			t.Errorf("%s says %q, as %s does", step, reason, other)
		}
		said[reason] = step
		if resumed := pivot.Apply(pivot.Resume, host, around); resumed.Annotations[infrav1.PauseReasonAnnotation] != "" {
			t.Errorf("%s: a host that runs says %v", step, resumed.Annotations)
		}
		if pivot.Explained(host, pivot.Keep) {
			t.Errorf("%s: the host does not say that it is held", step)
		}
		if held := pivot.Apply(pivot.Keep, host, around); !pivot.Explained(held, pivot.Keep) {
			t.Errorf("%s: got %v", step, held.Annotations)
		}
	}
	host := claimed()
	host.Annotations[bmov1alpha1.PausedAnnotation] = "maintenance"
	if !pivot.Explained(host, pivot.Keep) {
		t.Error("the user knows why")
	}
}
