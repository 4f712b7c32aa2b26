package hoststore_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
)

// failures are the probabilities of each failure in percent.
type failures struct{ conflict, refused, lost, crash int }

// simulation runs processes that claim hosts for machines while writes fail and processes crash.
//
// Each process reconciles its own machines, as the holder of a lease does. All of them compete for the hosts. One
// goroutine at a time runs a process. All goroutines share the server.
type simulation struct {
	t        *testing.T
	server   *server
	failures failures
	workers  []*worker
}

// worker is one process with its machines. It survives the crashes of the process.
type worker struct {
	*process
	simulation *simulation
	random     *rand.Rand
	// hints are the recorded hosts of the machines. They survive a crash, because the machines store them.
	hints map[string]string
	// deleting are the machines that must release their hosts. deletions is the number of future deletions.
	deleting  map[string]bool
	deletions int
	// ready are the machines to reconcile, each once.
	ready []string
	// choices records each machine with its chosen host.
	choices []string
}

// crash aborts a reconcile.
type crash struct{}

func newSimulation(t *testing.T, seed uint64, hosts, machines, processes int) *simulation {
	t.Helper()
	s := &simulation{t: t, server: newServer(), failures: failures{conflict: 25, refused: 10, lost: 10, crash: 5}}
	for i := range hosts {
		s.server.create(available(fmt.Sprintf("host-%03d", i)))
	}
	for i := range processes {
		w := &worker{
			simulation: s, random: rand.New(rand.NewPCG(seed, uint64(i))),
			hints: map[string]string{}, deleting: map[string]bool{}, deletions: (machines - hosts) / processes / 2,
		}
		for machine := i; machine < machines; machine += processes {
			w.hints[fmt.Sprintf("machine-%03d", machine)] = ""
		}
		w.start(hosts)
		s.workers = append(s.workers, w)
	}
	return s
}

// start restarts a process. The first list of its cache may be older than the state of the previous process.
func (w *worker) start(position int) {
	w.process = newProcess(w.simulation.server, position)
	w.fail, w.lose = w.maybeFail, w.maybeLose
	w.ready = nil
	for machine := range w.hints {
		w.ready = append(w.ready, machine)
	}
	slices.Sort(w.ready)
}

func (w *worker) chance(percent int) bool { return w.random.IntN(100) < percent }

func (w *worker) maybeFail(h *bmov1alpha1.BareMetalHost) error {
	if w.chance(w.simulation.failures.conflict) {
		// Another client changes the host first.
		w.server.edit(h.Name, touch)
	}
	if w.chance(w.simulation.failures.refused) {
		return internalError()
	}
	return nil
}

func (w *worker) maybeLose(*bmov1alpha1.BareMetalHost) error {
	if w.chance(w.simulation.failures.lost) {
		return timeout()
	}
	return nil
}

func (w *worker) maybeCrash() {
	if w.chance(w.simulation.failures.crash) {
		panic(crash{})
	}
}

// enqueue enqueues the machines of this process. It ignores those of others.
func (w *worker) enqueue(machines ...string) {
	for _, machine := range machines {
		_, mine := w.hints[machine]
		if mine && !slices.Contains(w.ready, machine) {
			w.ready = append(w.ready, machine)
		}
	}
}

// enqueueOffered enqueues the machines of the store. It settles deleted machines, as their reconcile does.
func (w *worker) enqueueOffered() {
	for enqueued := w.requests(); len(enqueued) > 0; enqueued = w.requests() {
		for _, machine := range enqueued {
			if _, exists := w.hints[machine]; !exists {
				w.forget(machine)
			}
		}
		w.enqueue(enqueued...)
	}
}

func (w *worker) forget(machine string) {
	w.store.Forget(key(machine))
	w.settle(machine, false)
}

// maybeDelete deletes a machine, as a user does.
func (w *worker) maybeDelete() {
	if w.deletions == 0 || !w.chance(5) {
		return
	}
	machines := slices.Sorted(maps.Keys(w.hints))
	machine := machines[w.random.IntN(len(machines))]
	if !w.deleting[machine] {
		w.deleting[machine] = true
		w.deletions--
		w.enqueue(machine)
	}
}

// watch delivers one more change to the cache and enqueues the machines that the watches of the controller enqueue.
func (w *worker) watch() bool {
	seen, more := w.server.next(w.position)
	if !more {
		return false
	}
	for _, h := range []*bmov1alpha1.BareMetalHost{w.hosts[key(seen.host.Name)], seen.host} {
		if h == nil {
			continue
		}
		if machine, found := host.Consumer(h); found {
			w.enqueue(machine)
		}
	}
	w.step()
	w.enqueueOffered()
	return true
}

// turn runs one step and returns false if there was none.
func (w *worker) turn() bool {
	w.maybeDelete()
	if len(w.ready) == 0 || w.chance(50) {
		// A process must read faster than all of them write.
		seen := false
		for range 1 + w.random.IntN(2*len(w.simulation.workers)) {
			seen = w.watch() || seen
		}
		if seen {
			return true
		}
	}
	if len(w.ready) == 0 {
		return false
	}
	at := w.random.IntN(len(w.ready))
	machine := w.ready[at]
	w.ready = slices.Delete(w.ready, at, at+1)
	w.reconcile(machine)
	w.enqueueOffered()
	return true
}

func (w *worker) reconcile(machine string) {
	defer func() {
		switch cause := recover(); cause.(type) {
		case nil:
		case crash:
			w.start(max(0, w.position-w.random.IntN(5)))
		default:
			panic(cause)
		}
	}()
	attempt := w.attempt
	if w.deleting[machine] {
		attempt = w.attemptRelease
	}
	waits, err := attempt(machine)
	w.settle(machine, waits)
	if err != nil {
		w.enqueue(machine)
	}
}

// attempt is the claim of a reconcile: it finds the host of the machine, or chooses and claims one.
func (w *worker) attempt(machine string) (waits bool, err error) {
	ctx := context.Background()
	holdings, err := w.store.Holdings(ctx, key(machine), w.hints[machine])
	if err != nil {
		return false, err
	}
	if holdings.Host != nil {
		w.hints[machine] = holdings.Host.Name
		return false, w.release(machine, holdings.Surplus)
	}
	for range 5 {
		choice, err := w.store.Choose(ctx, wants(machine))
		if err != nil {
			return false, err
		}
		if choice.Host == nil {
			w.hints[machine] = ""
			return true, nil
		}
		w.choices = append(w.choices, machine+" "+choice.Host.Name)
		w.maybeCrash()
		w.hints[machine] = choice.Host.Name
		w.maybeCrash()
		_, err = w.claim(choice.Host, machine)
		w.maybeCrash()
		if !errors.Is(err, hoststore.ErrConflict) {
			return false, err
		}
	}
	return false, hoststore.ErrConflict
}

// attemptRelease is the reconcile of a machine that is being deleted. It removes the machine without a host.
func (w *worker) attemptRelease(machine string) (waits bool, err error) {
	holdings, err := w.store.Holdings(context.Background(), key(machine), w.hints[machine])
	if err != nil {
		return false, err
	}
	held := holdings.Surplus
	if holdings.Host != nil {
		held = append(held, holdings.Host)
	}
	w.maybeCrash()
	if err := w.release(machine, held); err != nil {
		return false, err
	}
	w.maybeCrash()
	delete(w.hints, machine)
	w.forget(machine)
	return false, nil
}

func (w *worker) release(machine string, surplus []*bmov1alpha1.BareMetalHost) error {
	for _, h := range surplus {
		step := host.PlanRelease(h, host.Release{Machine: machine, Namespace: build.DefaultNamespace})
		if step.Write == nil {
			continue
		}
		if _, err := w.store.Write(context.Background(), h, step.Write); err != nil {
			return err
		}
	}
	return nil
}

// runTogether runs all processes in parallel until all are idle.
func (s *simulation) runTogether() {
	for again := true; again; {
		var group sync.WaitGroup
		busy := make([]bool, len(s.workers))
		for i, w := range s.workers {
			group.Go(func() {
				for w.turn() {
					busy[i] = true
				}
			})
		}
		group.Wait()
		again = slices.Contains(busy, true)
	}
}

// runInTurn runs one process at a time, in a random order, until all are idle.
func (s *simulation) runInTurn(random *rand.Rand) {
	idle := 0
	for idle < len(s.workers) {
		at := random.IntN(len(s.workers))
		idle = 0
		for i := range s.workers {
			if s.workers[(at+i)%len(s.workers)].turn() {
				break
			}
			idle++
		}
	}
}

// check checks the final state.
func (s *simulation) check(hosts int) {
	s.t.Helper()
	holders := map[string][]string{}
	for i := range hosts {
		h := s.server.host(fmt.Sprintf("host-%03d", i))
		machine, claimed := host.Consumer(h)
		_, recorded := h.Annotations[infrav1.ReleaseAnnotation]
		if !claimed || !recorded || h.Labels["cluster.x-k8s.io/cluster-name"] != "cluster-0" {
			s.t.Errorf("%s is claimed: %t, with a record: %t, labels %v", h.Name, claimed, recorded, h.Labels)
		}
		holders[machine] = append(holders[machine], h.Name)
	}
	waiting, left := 0, 0
	for i, w := range s.workers {
		mine := 0
		for machine, hint := range w.hints {
			switch held := holders[machine]; {
			case len(held) == 0:
				mine++
			case len(held) > 1 || held[0] != hint:
				s.t.Errorf("%s holds %v and recorded %q", machine, held, hint)
			}
		}
		waiting += mine
		left += len(w.hints)
		got := w.store.Memory()
		// A write may be rejected after the event of the conflicting change. The next event clears it.
		got.Outdated = 0
		if diff := cmp.Diff(hoststore.Memory{Waiters: mine}, got); diff != "" {
			s.t.Errorf("memory of process %d: -want +got:\n%s", i, diff)
		}
	}
	if waiting != left-hosts {
		s.t.Errorf("%d of %d machines wait for %d hosts", waiting, left, hosts)
	}
}

// checkHistory checks that each host was free between two machines.
func (s *simulation) checkHistory() {
	s.t.Helper()
	holder := map[string]string{}
	for _, seen := range s.server.history {
		machine, _ := host.Consumer(seen.host)
		if before := holder[seen.host.Name]; before != "" && machine != "" && before != machine {
			s.t.Errorf("%s went from %s to %s", seen.host.Name, before, machine)
		}
		holder[seen.host.Name] = machine
	}
}

func theSeed(t *testing.T) uint64 {
	t.Helper()
	chosen := seed.Chosen()
	t.Logf("repeat with %s=%d", seed.Variable, chosen)
	return chosen
}

func TestManyMachinesFewHosts(t *testing.T) {
	const hosts, machines, processes = 150, 200, 8
	s := newSimulation(t, theSeed(t), hosts, machines, processes)
	s.runTogether()
	t.Logf("%d versions of %d hosts", len(s.server.history), hosts)
	s.check(hosts)
	s.checkHistory()
}

// TestFewMachinesManySeeds finds rare orders of events with many small simulations.
func TestFewMachinesManySeeds(t *testing.T) {
	const hosts, machines, processes = 3, 5, 2
	first := theSeed(t)
	for i := range uint64(100) {
		s := newSimulation(t, first+i, hosts, machines, processes)
		s.failures = failures{conflict: 30, refused: 15, lost: 15, crash: 10}
		s.runInTurn(rand.New(rand.NewPCG(first+i, 100)))
		s.check(hosts)
		s.checkHistory()
		if t.Failed() {
			t.Fatalf("the seed of this run is %d", first+i)
		}
	}
}

// TestTheSameSeedGivesTheSameChoices runs two simulations in one thread.
func TestTheSameSeedGivesTheSameChoices(t *testing.T) {
	const hosts, machines, processes = 30, 40, 8
	chosen := theSeed(t)
	var choices [2][]string
	for i := range choices {
		s := newSimulation(t, chosen, hosts, machines, processes)
		s.runInTurn(rand.New(rand.NewPCG(chosen, 100)))
		s.check(hosts)
		for _, w := range s.workers {
			choices[i] = append(choices[i], w.choices...)
		}
	}
	if diff := cmp.Diff(choices[0], choices[1]); diff != "" {
		t.Errorf("the choices differ: -first +second:\n%s", diff)
	}
}
