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

// failures is how often, in a hundred times, each thing goes wrong.
type failures struct{ conflict, refused, lost, crash int }

// simulation lets processes claim hosts for machines while writes fail and processes crash.
//
// Each process looks after its own machines, as the holder of a lease does, and all of them compete for the hosts. A
// process is never run by two goroutines at once; the server is used by all.
type simulation struct {
	t        *testing.T
	server   *server
	failures failures
	workers  []*worker
}

// worker is one process with the machines that it looks after. It outlives the crashes of the process.
type worker struct {
	*process
	simulation *simulation
	random     *rand.Rand
	// hints are the hosts that the machines have recorded. They are stored on the machines, so a crash leaves them.
	hints map[string]string
	// deleting are the machines that have to let go of their hosts. Deletions is how many are still to be deleted.
	deleting  map[string]bool
	deletions int
	// ready are the machines to reconcile, each once.
	ready []string
	// choices is the diary: which machine chose which host.
	choices []string
}

// crash ends a reconcile on the spot: nothing after it happens, not even what is deferred.
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

// start begins a process anew. Its cache begins with a list that may be older than what the process before it knew.
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
		// A real conflict: somebody changes the host first.
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

// enqueue lets machines be reconciled. One process hears of the machines of all.
func (w *worker) enqueue(machines ...string) {
	for _, machine := range machines {
		_, mine := w.hints[machine]
		if mine && !slices.Contains(w.ready, machine) {
			w.ready = append(w.ready, machine)
		}
	}
}

// enqueueOffered is for machines that the store enqueues. One that is gone by now is reconciled as well, to nothing.
func (w *worker) enqueueOffered() {
	for enqueued := w.requests(); len(enqueued) > 0; enqueued = w.requests() {
		for _, machine := range enqueued {
			if _, exists := w.hints[machine]; !exists {
				w.letGo(machine)
			}
		}
		w.enqueue(enqueued...)
	}
}

func (w *worker) letGo(machine string) {
	w.store.Forget(key(machine))
	w.settle(machine, false)
}

// maybeDelete lets a user delete a machine.
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

// watch lets the cache see one more change, and requests the machines that the watches of the controller would enqueue.
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

// turn does one thing, and reports whether there was one to do.
func (w *worker) turn() bool {
	w.maybeDelete()
	if len(w.ready) == 0 || w.chance(50) {
		// All processes together write more than one can read one by one.
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

// attempt is the part of a reconcile that claims: find what the machine holds, or choose and write.
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

// attemptRelease is a reconcile of a machine that is being deleted: it is gone once it holds no host.
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
	w.letGo(machine)
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

// runTogether runs all processes at once until nobody has anything to do.
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

// runInTurn runs one process after the other, as a seed decides, until nobody has anything to do.
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

// check demands what must hold at the end, whatever happened on the way.
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
				s.t.Errorf("%s holds %v and has recorded %q", machine, held, hint)
			}
		}
		waiting += mine
		left += len(w.hints)
		got := w.store.Memory()
		// A refused write may come after the event of the change that refused it. The next event clears it.
		got.Outdated = 0
		if diff := cmp.Diff(hoststore.Memory{Waiters: mine}, got); diff != "" {
			s.t.Errorf("process %d remembers: -want +got:\n%s", i, diff)
		}
	}
	if waiting != left-hosts {
		s.t.Errorf("%d of %d machines wait for %d hosts", waiting, left, hosts)
	}
}

// checkHistory demands that no host ever went from one machine to another without being free in between.
func (s *simulation) checkHistory() {
	s.t.Helper()
	holder := map[string]string{}
	for _, seen := range s.server.history {
		machine, _ := host.Consumer(seen.host)
		if before := holder[seen.host.Name]; before != "" && machine != "" && before != machine {
			s.t.Errorf("%s was taken from %s by %s", seen.host.Name, before, machine)
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

// TestFewMachinesManySeeds looks for rare orders of events: it is small, so that it can be repeated often.
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
	var diaries [2][]string
	for i := range diaries {
		s := newSimulation(t, chosen, hosts, machines, processes)
		s.runInTurn(rand.New(rand.NewPCG(chosen, 100)))
		s.check(hosts)
		for _, w := range s.workers {
			diaries[i] = append(diaries[i], w.choices...)
		}
	}
	if diff := cmp.Diff(diaries[0], diaries[1]); diff != "" {
		t.Errorf("the choices differ: -first +second:\n%s", diff)
	}
}
