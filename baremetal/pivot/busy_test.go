package pivot_test

import (
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// powering is the table of hosts whose power BMO may be changing: state, who has paused, reboot annotation,
// spec.online, status.poweredOn, error, and what the host is busy with.
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

// TestRebootIsFinished is about a pause that came in the middle of a reboot: the host would stay off.
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
