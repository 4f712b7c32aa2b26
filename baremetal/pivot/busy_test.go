package pivot_test

import (
	"strings"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// powering is the table of hosts whose power BMO may be changing: state, owner of the pause, reboot annotation,
// spec.online, status.poweredOn, error, and the operation.
func powering() [][]string {
	return [][]string{
		{"available", "*", "*", "*", "*", "*", ""},
		{"*", "user", "*", "*", "*", "*", ""},
		{"*", "*", "*", "*", "*", "error", ""},
		{"*", "*", "once|both", "*", "*", "*", "being rebooted"},
		{"*", "*", "held", "*", "on", "*", "being rebooted"},
		{"*", "*", "held", "*", "off", "*", ""},
		{"*", "*", "none", "online", "off", "*", "being powered on"},
		{"*", "*", "none", "offline", "on", "*", "being powered off"},
		{"*", "*", "none", "*", "*", "*", ""},
	}
}

func TestPowering(t *testing.T) {
	for _, facts := range combinations([]string{"available", "provisioned", "externally provisioned"},
		[]string{"nobody", "user", "provider"}, []string{"none", "once", "held", "both"}, []string{"online", "offline"},
		[]string{"on", "off"}, []string{"error", "fine"},
	) {
		host := claimed()
		host.Status.Provisioning.State = bmov1alpha1.ProvisioningState(facts[0])
		switch facts[1] {
		case "user":
			host.Annotations[bmov1alpha1.PausedAnnotation] = ""
		case "provider":
			host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
		}
		if facts[2] == "once" || facts[2] == "both" {
			host.Annotations[bmov1alpha1.RebootAnnotationPrefix] = ""
		}
		if facts[2] == "held" || facts[2] == "both" {
			host.Annotations[bmov1alpha1.RebootAnnotationPrefix+"/poison-pill"] = ""
		}
		host.Spec.Online, host.Status.PoweredOn = facts[3] == "online", facts[4] == "on"
		if facts[5] == "error" {
			host.Status.ErrorType = bmov1alpha1.PowerManagementError
		}
		if got, want := pivot.Busy(host), answer(powering(), facts); got != want {
			t.Errorf("%s: got %q, want %q", strings.Join(facts, ", "), got, want)
		}
	}
}

// TestRebootIsFinished tests a pause during a reboot: the host would stay off.
func TestRebootIsFinished(t *testing.T) {
	host := claimed()
	host.Spec.Online = true
	around := []pivot.Neighbour{paused}
	if step := pivot.PlanHost(host, around, pivot.HostFacts{}); step != pivot.Leave {
		t.Errorf("a host that is off and has to be on is not paused: got %s", step)
	}
	host.Annotations[bmov1alpha1.PausedAnnotation] = infrav1.HostPausedByProvider
	if step := pivot.PlanHost(host, around, pivot.HostFacts{Settled: true}); step != pivot.Resume {
		t.Errorf("a host that was paused while it was off is resumed: got %s", step)
	}
	host.Status.PoweredOn = true
	if step := pivot.PlanHost(host, around, pivot.HostFacts{Settled: true}); step != pivot.Record {
		t.Errorf("a host that is on again is recorded: got %s", step)
	}
}

// TestMovesWhileBusy tests busy hosts that a move waits for, unless their user allows the move.
func TestMovesWhileBusy(t *testing.T) {
	around := []pivot.Neighbour{paused}
	for state, moves := range map[bmov1alpha1.ProvisioningState]bool{
		bmov1alpha1.StateInspecting: true, bmov1alpha1.StatePreparing: true, bmov1alpha1.StateDeprovisioning: true,
		bmov1alpha1.StateProvisioning: false, bmov1alpha1.StateRegistering: false, bmov1alpha1.StateMatchProfile: false,
		bmov1alpha1.StateDeleting: false, bmov1alpha1.StatePoweringOffBeforeDelete: false, "of a later release": false,
	} {
		host := build.Host("host", build.State(state))
		if got := pivot.MovesWhileBusy(host); got != moves {
			t.Errorf("%s: moves while busy: %t", state, got)
		}
		if step := pivot.PlanHost(host, around, pivot.HostFacts{}); step != pivot.Leave {
			t.Errorf("%s: without a word of the user: %s", state, step)
		}
		host.Annotations = map[string]string{infrav1.MoveWhileBusyAnnotation: ""}
		if got := pivot.Delays(host) == ""; got != moves || pivot.Busy(host) == "" {
			t.Errorf("%s: lets a move go on: %t; busy: %q", state, got, pivot.Busy(host))
		}
		want := map[bool]pivot.Step{true: pivot.Pause, false: pivot.Leave}[moves]
		if step := pivot.PlanHost(host, around, pivot.HostFacts{}); step != want {
			t.Errorf("%s: got %s, want %s", state, step, want)
		}
		host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
		if pivot.Delays(host) == "" {
			t.Errorf("%s: a move forgets the deletion", state)
		}
	}

	host := build.Host("host", build.State(bmov1alpha1.StateDeprovisioning), build.Paused(infrav1.HostPausedByProvider))
	host.Annotations[infrav1.MoveWhileBusyAnnotation] = ""
	for goal, want := range map[string]pivot.Phase{"paused": pivot.PhaseParking, "running": pivot.PhaseResuming} {
		around := map[string][]pivot.Neighbour{"paused": {paused}, "running": {runs}}[goal]
		if phase := pivot.PhaseOf(host, around); phase != want {
			t.Errorf("%s: got %s, want %s", goal, phase, want)
		}
	}
	resumed := pivot.Apply(pivot.Resume, host, []pivot.Neighbour{runs})
	if _, left := resumed.Annotations[infrav1.MoveWhileBusyAnnotation]; left {
		t.Error("the word counts for the next move too")
	}
	if phase := pivot.PhaseOf(resumed, []pivot.Neighbour{runs}); phase != pivot.PhaseBusy {
		t.Errorf("resumed: %s", phase)
	}
}
