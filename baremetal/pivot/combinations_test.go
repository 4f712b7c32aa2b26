package pivot_test

import (
	"slices"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// Facts that decide about a host after a move and at a change of the holder.
const (
	goalColumn = iota
	movingColumn
	pauseColumn
	holderColumn
	toldColumn
	stateColumn
	nodeColumn
)

// arrival returns a host and its Cluster that match the facts.
func arrival(t *testing.T, facts []string) (*bmov1alpha1.BareMetalHost, []pivot.Neighbour) {
	t.Helper()
	host := claimed()
	host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/node"}
	host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
	switch facts[stateColumn] {
	case "status lost":
		host.Status = bmov1alpha1.BareMetalHostStatus{}
	case "brings provisioning":
		host.Status.Provisioning.State, host.Status.ErrorType = bmov1alpha1.StateProvisioning, bmov1alpha1.ProvisioningError
		record(t, host)
		host.Status = bmov1alpha1.BareMetalHostStatus{}
	case "brings available":
		host.Status.Provisioning.State = bmov1alpha1.StateAvailable
		record(t, host)
		host.Status = bmov1alpha1.BareMetalHostStatus{}
	case "serviced":
		host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		host.Status.OperationalStatus = bmov1alpha1.OperationalStatusServicing
	default:
		host.Status.Provisioning.State = bmov1alpha1.ProvisioningState(facts[stateColumn])
	}
	if facts[movingColumn] == "moving" {
		host.Annotations[infrav1.DeleteForMoveAnnotation] = ""
	}
	if facts[pauseColumn] != "nobody" {
		host.Annotations[bmov1alpha1.PausedAnnotation] = map[string]string{
			"ours": infrav1.HostPausedByProvider, "theirs": "maintenance",
		}[facts[pauseColumn]]
	}
	if told := facts[toldColumn]; told != "nothing" {
		host.Annotations[infrav1.IronicHolderAnnotation] = map[string]string{
			"holder": facts[holderColumn] + "/n", "another": "ControlPlane/o",
		}[told]
	}
	around := pivot.Neighbour{
		Name: "c", Paused: facts[goalColumn] == "Parked", Verified: facts[goalColumn] == "Running",
		Endpoint: facts[holderColumn] != "no endpoint",
	}
	if kind := infrav1.HolderKind(facts[holderColumn]); around.Endpoint && kind != "unknown" {
		around.Holder = &infrav1.IronicHolder{Kind: kind, Name: "n"}
	}
	return host, []pivot.Neighbour{around}
}

// known returns the facts that are not in the host.
func known(facts []string) pivot.HostFacts {
	return pivot.HostFacts{
		Settled: true, Joined: facts[nodeColumn] == "joined", Unknown: facts[nodeColumn] == "unknown",
	}
}

// arrivals returns all combinations of facts.
func arrivals() [][]string {
	return combinations(
		[]string{"Parked", "Running", "WaitingForEndpoint"}, []string{"moving", "here"}, []string{"nobody", "ours", "theirs"},
		[]string{"no endpoint", "unknown", "None", "Foreign", "Management", "ControlPlane"},
		[]string{"nothing", "holder", "another"},
		[]string{
			"provisioned", "serviced", "available", "inspecting", "provisioning", "deprovisioning", "status lost",
			"brings provisioning", "brings available",
		},
		[]string{"joined", "no node", "unknown"},
	)
}

// TestPlanHostAfterwards tests every combination for a Nudge, MarkProvisioned, Forget, and hosts without their status.
func TestPlanHostAfterwards(t *testing.T) {
	const unfinished = "inspecting|available|provisioning|brings available|brings provisioning"
	table := [][]string{
		// goal, clusterctl deletes it, paused by, holder, holder in its annotation, host, node, step
		{"*", "moving", "*", "*", "*", "*", "*", "Leave"},

		{"Parked|Running", "*", "*", "Management", "another", unfinished, "joined", "MarkProvisioned"},
		{"Parked|Running", "*", "*", "ControlPlane", "another|nothing", unfinished, "joined", "MarkProvisioned"},
		{"Parked|Running", "*", "*", "Management", "another", unfinished, "unknown", "Hold"},
		{"Parked|Running", "*", "*", "ControlPlane", "another|nothing", unfinished, "unknown", "Hold"},
		{"Parked|Running", "*", "theirs", "Management", "another", unfinished, "*", "Hold"},
		{"Parked|Running", "*", "theirs", "ControlPlane", "another|nothing", unfinished, "*", "Hold"},

		{"Parked", "*", "ours", "*", "*", "inspecting", "*", "Resume"},
		{"Parked", "*", "ours", "*", "*", "provisioning", "*", "Resume"},
		{"Parked", "*", "ours", "*", "*", "deprovisioning", "*", "Resume"},
		{"Parked", "*", "ours", "*", "*", "serviced", "*", "Resume"},
		{"Parked", "*", "*", "*", "*", "inspecting", "*", "Leave"},
		{"Parked", "*", "*", "*", "*", "provisioning", "*", "Leave"},
		{"Parked", "*", "*", "*", "*", "deprovisioning", "*", "Leave"},
		{"Parked", "*", "*", "*", "*", "serviced", "*", "Leave"},
		{"Parked", "*", "nobody", "*", "*", "*", "*", "Pause"},
		{"Parked", "*", "*", "*", "*", "provisioned", "*", "Record"},
		{"Parked", "*", "*", "*", "*", "available", "*", "Record"},
		{"Parked", "*", "*", "*", "*", "*", "*", "Leave"},
		{"*", "*", "nobody", "no endpoint", "holder", "*", "*", "Forget"},
		{"*", "*", "nobody", "no endpoint", "another", "*", "*", "Forget"},
		{"WaitingForEndpoint", "*", "*", "*", "*", "*", "*", "Leave"},

		{"Running", "*", "ours", "*", "*", "status lost", "joined", "MarkProvisioned"},
		{"Running", "*", "ours", "*", "*", "status lost", "*", "Await"},
		{"Running", "*", "ours", "*", "*", "*", "*", "Resume"},

		{"Running", "*", "*", "Management", "another", "*", "*", "Nudge"},
		{"Running", "*", "*", "ControlPlane", "another", "*", "*", "Nudge"},
		{"Running", "*", "*", "ControlPlane", "nothing", "*", "*", "Nudge"},
		{"Running", "*", "*", "*", "*", "*", "*", "Leave"},
	}
	for _, facts := range arrivals() {
		host, around := arrival(t, facts)
		got := pivot.PlanHost(host, around, known(facts))
		if want := answer(table, facts); string(got) != want {
			t.Errorf("%q: got %s, want %s", facts, got, want)
		}
	}
}

// decision is the decision for one combination of facts.
type decision struct {
	facts   []string
	step    pivot.Step
	changed *bmov1alpha1.BareMetalHost
}

func (d decision) is(column int, value string) bool { return d.facts[column] == value }

// letsGo returns true if BMO acts on the host because of the step.
func (d decision) letsGo() bool { return d.step == pivot.Resume || d.step == pivot.Nudge }

// forgets returns true if BMO begins again after the step, and the facts show that no longer.
func (d decision) forgets() bool { return d.step == pivot.Nudge && d.wouldBeginAnew() }

// laws are conditions that no step may violate.
func laws() map[string]func(decision) bool {
	return map[string]func(decision) bool{
		"a step writes a host that clusterctl deletes": func(d decision) bool {
			return d.is(movingColumn, "moving") && d.step != pivot.Leave
		},
		"a step removes the pause of a user": func(d decision) bool {
			return d.is(pauseColumn, "theirs") && d.changed.Annotations[bmov1alpha1.PausedAnnotation] != "maintenance"
		},
		"a step marks a host as provisioned whose Node has not joined": func(d decision) bool {
			return d.step == pivot.MarkProvisioned && !d.is(nodeColumn, "joined")
		},
		"BMO provisions a host again whose Node has joined, or may have joined": func(d decision) bool {
			return d.letsGo() && !d.is(nodeColumn, "no node") && d.wouldBeginAnew()
		},
		"a host that a user paused loses the record of the Ironic that was provisioning it": func(d decision) bool {
			return d.is(pauseColumn, "theirs") && d.forgets()
		},
		"a step resumes a host before its Ironic endpoint is verified": func(d decision) bool {
			return d.letsGo() && d.is(goalColumn, "WaitingForEndpoint")
		},
		"a Nudge records a holder of another cluster, or none": func(d decision) bool {
			return d.step == pivot.Nudge && !d.is(holderColumn, "Management") && !d.is(holderColumn, "ControlPlane")
		},
		"a step resumes a host without its status, on which a system may run": func(d decision) bool {
			return d.letsGo() && d.is(stateColumn, "status lost") && d.is(pauseColumn, "ours")
		},
	}
}

// TestWhatNeverHappens tests every combination with the laws.
func TestWhatNeverHappens(t *testing.T) {
	for _, facts := range arrivals() {
		host, around := arrival(t, facts)
		step := pivot.PlanHost(host, around, known(facts))
		decided := decision{facts, step, pivot.Apply(step, host, around)}
		for what, broken := range laws() {
			if broken(decided) {
				t.Errorf("%q: %s: %s", facts, step, what)
			}
		}
		again, once := pivot.PlanHost(decided.changed, around, known(facts)), step == pivot.Nudge || step == pivot.Forget
		if again == step && (once || step == pivot.MarkProvisioned && pivot.BringsStatus(host)) {
			t.Errorf("%q: %s is done again and again", facts, step)
		}
	}
}

// wouldBeginAnew returns true if BMO would provision the host from the beginning: another Ironic answers than the one
// of the status, or there is no status.
func (d decision) wouldBeginAnew() bool {
	facts := d.facts
	another := facts[holderColumn] == "ControlPlane" && facts[toldColumn] != "holder" ||
		facts[holderColumn] == "Management" && facts[toldColumn] == "another"
	return facts[goalColumn] == "Running" && facts[stateColumn] == "status lost" && facts[pauseColumn] == "ours" ||
		another && slices.Contains([]string{
			"inspecting", "available", "provisioning", "brings available", "brings provisioning",
		}, facts[stateColumn])
}
