package pivot_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// passage is a host during a move, with its Cluster and the facts of the manager.
type passage struct {
	t      *testing.T
	host   *bmov1alpha1.BareMetalHost
	around pivot.Neighbour
	facts  pivot.HostFacts
}

// at returns a host in a phase.
func at(t *testing.T, phase pivot.Phase) *passage {
	t.Helper()
	p := &passage{t: t, host: claimed(), around: runs, facts: pivot.HostFacts{Settled: true}}
	p.host.Spec.Image = &bmov1alpha1.Image{URL: "http://images.example/node"}
	p.host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
	begin := map[pivot.Phase]func(){
		pivot.PhaseBusy:    func() { p.work(bmov1alpha1.StateProvisioning) },
		pivot.PhaseParking: func() { p.clusterctl(true) },
		pivot.PhaseParked: func() {
			p.clusterctl(true)
			p.manager(pivot.Pause, pivot.Record)
		},
		pivot.PhaseLeaving: func() { p.host.Annotations[infrav1.DeleteForMoveAnnotation] = "" },
		pivot.PhaseWaitingForEndpoint: func() {
			p.manage(unverified)
			p.pause(infrav1.HostPausedByProvider)
		},
		pivot.PhaseResuming: func() { p.pause(infrav1.HostPausedByProvider) },
		pivot.PhaseFenced: func() {
			p.around.Superseded = true
			p.manager(pivot.FenceOff)
		},
		pivot.PhaseArrivalHeld: func() {
			p.pause(infrav1.HostPausedByProvider)
			p.host.Annotations[infrav1.MoveEpochAnnotation], p.around.Arrival = "1", 3
		},
		pivot.PhaseStatusLost: func() {
			p.host.Status = bmov1alpha1.BareMetalHostStatus{}
			p.pause(infrav1.HostPausedByProvider)
		},
		pivot.PhaseProvisioningHeld: func() {
			p.work(bmov1alpha1.StateProvisioning)
			p.loseIronic()
		},
		pivot.PhasePausedByUser: func() { p.pause("maintenance") },
	}
	if change, is := begin[phase]; is {
		change()
	}
	if phase != "" {
		p.demand(phase)
	}
	return p
}

func (p *passage) demand(want pivot.Phase) {
	p.t.Helper()
	if got := pivot.PhaseOf(p.host, []pivot.Neighbour{p.around}); got != want {
		p.t.Errorf("got phase %s, want %s", got, want)
	}
}

// manager performs the steps of the manager, which must be exactly these.
func (p *passage) manager(want ...pivot.Step) {
	p.t.Helper()
	around := []pivot.Neighbour{p.around}
	for _, step := range want {
		if got := pivot.PlanHost(p.host, around, p.facts); got != step {
			p.t.Fatalf("got step %s, want %s", got, step)
		}
		p.host = pivot.Apply(step, p.host, around)
		switch step { //nolint:exhaustive // All others are complete.
		case pivot.Record:
			record(p.t, p.host)
		case pivot.MarkProvisioned:
			p.host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		}
	}
}

func (p *passage) pause(by string) { p.host.Annotations[bmov1alpha1.PausedAnnotation] = by }

func (p *passage) unpause() { delete(p.host.Annotations, bmov1alpha1.PausedAnnotation) }

func (p *passage) work(state bmov1alpha1.ProvisioningState) { p.host.Status.Provisioning.State = state }

// clusterctl pauses or unpauses the Cluster.
func (p *passage) clusterctl(pauses bool) { p.around.Paused = pauses }

// manage replaces the facts about the Cluster.
func (p *passage) manage(around pivot.Neighbour) { p.around = around }

// loseIronic lets another Ironic answer, while the workload cluster does not answer.
func (p *passage) loseIronic() {
	p.around.Endpoint, p.facts.Unknown = true, true
	p.around.Holder = &infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: "n"}
	p.manager(pivot.Hold)
}

// TestTransitions tests each transition of the state machine.
func TestTransitions(t *testing.T) {
	type edge struct{ from, to pivot.Phase }
	passages := map[edge]func(*passage){
		{"", pivot.PhaseRunning}:                             func(*passage) {},
		{pivot.PhaseRunning, pivot.PhaseBusy}:                func(p *passage) { p.work(bmov1alpha1.StateProvisioning) },
		{pivot.PhaseBusy, pivot.PhaseRunning}:                func(p *passage) { p.work(bmov1alpha1.StateProvisioned) },
		{pivot.PhaseRunning, pivot.PhaseParking}:             func(p *passage) { p.clusterctl(true) },
		{pivot.PhaseParking, pivot.PhaseRunning}:             func(p *passage) { p.clusterctl(false) },
		{pivot.PhaseParking, pivot.PhaseParked}:              func(p *passage) { p.manager(pivot.Pause, pivot.Record, pivot.Leave) },
		{pivot.PhaseWaitingForEndpoint, pivot.PhaseResuming}: func(p *passage) { p.manage(runs) },
		{pivot.PhaseResuming, pivot.PhaseWaitingForEndpoint}: func(p *passage) { p.manage(unverified) },
		{pivot.PhaseResuming, pivot.PhaseRunning}:            func(p *passage) { p.manager(pivot.Resume) },
		{pivot.PhaseFenced, pivot.PhaseResuming}:             func(p *passage) { p.around.Superseded = false },
		{pivot.PhaseRunning, pivot.PhasePausedByUser}:        func(p *passage) { p.pause("maintenance") },
		{pivot.PhasePausedByUser, pivot.PhaseRunning}:        func(p *passage) { p.unpause() },
		{pivot.PhaseStatusLost, pivot.PhaseResuming}:         func(p *passage) { p.manager(pivot.Await); p.join() },
		{pivot.PhaseBusy, pivot.PhaseProvisioningHeld}:       func(p *passage) { p.loseIronic() },
		{pivot.PhaseProvisioningHeld, pivot.PhaseResuming}:   func(p *passage) { p.join() },
		{pivot.PhaseParked, pivot.PhaseLeaving}:              func(p *passage) { p.host.Annotations[infrav1.DeleteForMoveAnnotation] = "" },
		{pivot.PhaseLeaving, ""}:                             func(p *passage) { p.manager(pivot.Leave) },
		{"", pivot.PhaseArrivalHeld}:                         func(p *passage) { p.arriveOnLeftover() },
		{pivot.PhaseArrivalHeld, pivot.PhaseResuming}:        func(p *passage) { delete(p.host.Annotations, infrav1.MoveEpochAnnotation) },
		{pivot.PhaseWaitingForEndpoint, pivot.PhaseParked}:   func(p *passage) { p.clusterctl(true); p.manager(pivot.Record) },
		{"", pivot.PhaseParked}:                              func(p *passage) { p.arrive(); p.clusterctl(true); p.manager(pivot.Leave) },
		{pivot.PhaseRunning, pivot.PhaseFenced}:              func(p *passage) { p.around.Superseded = true; p.manager(pivot.FenceOff) },
		{pivot.PhaseParked, pivot.PhaseArrivalHeld}:          func(p *passage) { p.skipMove(); p.manager(pivot.Keep) },
		{pivot.PhaseBusy, pivot.PhaseParking}: func(p *passage) {
			p.clusterctl(true)
			p.demand(pivot.PhaseBusy)
			p.manager(pivot.Leave)
			p.work(bmov1alpha1.StateProvisioned)
		},
		{pivot.PhaseParked, pivot.PhaseParking}: func(p *passage) { p.host.Status.Provisioning.ID = "another" },
		{pivot.PhaseParked, pivot.PhaseWaitingForEndpoint}: func(p *passage) {
			p.manage(unverified)
			p.manager(pivot.Leave)
		},
		{"", pivot.PhaseStatusLost}: func(p *passage) {
			p.host.Status = bmov1alpha1.BareMetalHostStatus{}
			p.pause(infrav1.HostPausedByProvider)
		},
		{pivot.PhasePausedByUser, pivot.PhaseParked}: func(p *passage) {
			p.clusterctl(true)
			p.manager(pivot.Record)
		},
		{pivot.PhaseParked, pivot.PhasePausedByUser}: func(p *passage) {
			p.pause("maintenance")
			p.clusterctl(false)
			p.manager(pivot.Explain, pivot.Leave)
		},
	}
	for _, transition := range pivot.Transitions() {
		pass, told := passages[edge{transition.From, transition.To}]
		if !told {
			t.Errorf("nothing goes from %q to %q", transition.From, transition.To)
			continue
		}
		delete(passages, edge{transition.From, transition.To})
		t.Run(string(transition.From)+"To"+string(transition.To), func(t *testing.T) {
			p := at(t, transition.From)
			pass(p)
			if transition.To != "" {
				p.demand(transition.To)
			}
		})
	}
	for missing := range passages {
		t.Errorf("no transition goes from %q to %q", missing.from, missing.to)
	}
}

// join adds the Node of the host.
func (p *passage) join() {
	p.facts.Joined, p.facts.Unknown = true, false
	p.manager(pivot.MarkProvisioned)
}

// arrive replaces the host with the object that clusterctl creates in the target.
func (p *passage) arrive() {
	record(p.t, p.host)
	p.pause(infrav1.HostPausedByProvider)
	p.host.Status = bmov1alpha1.BareMetalHostStatus{}
}

// arriveOnLeftover lets clusterctl update a leftover that is being deleted.
func (p *passage) arriveOnLeftover() {
	record(p.t, p.host)
	p.pause(infrav1.HostPausedByProvider)
	p.host.Annotations[infrav1.StatusOriginAnnotation] = "another"
	p.host.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
}

// skipMove lets the Cluster arrive without the host.
func (p *passage) skipMove() {
	p.host.Annotations[infrav1.MoveEpochAnnotation] = "1"
	p.around.Arrival, p.around.Paused = 3, false
}

// TestEveryPhaseHasAWayInAndOut requires that each phase can be reached and left.
func TestEveryPhaseHasAWayInAndOut(t *testing.T) {
	reached, ends := map[pivot.Phase]bool{"": true}, map[pivot.Phase]bool{pivot.PhaseRunning: true, "": true}
	for range pivot.Transitions() {
		for _, transition := range pivot.Transitions() {
			reached[transition.To] = reached[transition.To] || reached[transition.From]
			ends[transition.From] = ends[transition.From] || ends[transition.To]
		}
	}
	for _, phase := range pivot.Phases() {
		if !reached[phase] || !ends[phase] {
			t.Errorf("%s: reached: %v, ends: %v", phase, reached[phase], ends[phase])
		}
		if got, want := pivot.CountPhases(map[pivot.Phase]int{phase: 2}), "2 "+string(phase); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestStepsOfPhases tests every combination of facts, and requires that the manager performs no other step in a phase.
func TestStepsOfPhases(t *testing.T) {
	want := map[pivot.Phase][]pivot.Step{
		pivot.PhaseRunning: {
			pivot.Forget, pivot.Hold, pivot.Leave, pivot.MarkProvisioned, pivot.Nudge,
		},
		pivot.PhaseBusy: {
			pivot.Forget, pivot.Hold, pivot.Leave, pivot.MarkProvisioned, pivot.Nudge, pivot.Resume,
		},
		pivot.PhaseParking:            {pivot.Hold, pivot.MarkProvisioned, pivot.Pause, pivot.Record},
		pivot.PhaseParked:             {pivot.Hold, pivot.Leave, pivot.MarkProvisioned},
		pivot.PhaseLeaving:            {pivot.Leave},
		pivot.PhaseWaitingForEndpoint: {pivot.Leave},
		pivot.PhaseResuming:           {pivot.Hold, pivot.MarkProvisioned, pivot.Resume},
		pivot.PhaseStatusLost:         {pivot.Await, pivot.Leave, pivot.MarkProvisioned},
		pivot.PhaseProvisioningHeld:   {pivot.Hold, pivot.MarkProvisioned},
		pivot.PhasePausedByUser:       {pivot.Leave, pivot.Nudge, pivot.Record},
	}
	got := map[pivot.Phase][]pivot.Step{}
	for _, facts := range arrivals() {
		host, around := arrival(t, facts)
		phase, step := pivot.PhaseOf(host, around), pivot.PlanHost(host, around, known(facts))
		if !slices.Contains(got[phase], step) {
			got[phase] = append(got[phase], step)
			slices.Sort(got[phase])
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want, +got:\n%s", diff)
	}
}
