package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
)

const (
	// The manager is idle when it sends no request in this number of samples, and uses less than idle of a processor
	// between two samples: during a long list it sends no request either.
	quietSamples  = 4
	quietInterval = 250 * time.Millisecond
	idle          = 30 * time.Millisecond

	// profileSeconds is the duration of one CPU profile. Profiles follow each other until all machines have a host.
	profileSeconds = 10
)

// result are the results of one size.
type result struct {
	size, hosts int

	// plainCreation is the time to create the Machines without a running manager, creation the time to create the
	// Metal3Machines with one.
	plainCreation, creation time.Duration

	// floor is the time for the writes of the association by plain clients.
	floor time.Duration

	// associated is the time from the first creation until all hosts were claimed, afterLast that from the last
	// creation.
	associated, afterLast time.Duration

	// started is the usage until the manager was idle after its start, used that of the association until it was idle
	// again.
	started, used usage

	// association, provisioning and release are the requests in these phases.
	association, provisioning, release []env.Request

	// waited is the usage from the first creation of a machine until all machines waited. Zero unless hosts become
	// available one by one. minute is the usage in the idle time, and idle are the requests with all hosts
	// provisioned.
	waited, minute usage
	idle           []env.Request

	// available is the time from the first deletion until the last host was available again, released the time from
	// then until all hosts were free and all machines deleted.
	available, released time.Duration

	// memory is the maximum resident memory of the manager in bytes.
	memory int64

	// contest are the results of the competitors, or nil.
	contest *contest

	// problems are the failed checks.
	problems []string
}

type session struct {
	settings settings
	server   *env.Server
	fixture  *fixture
	manager  *manager
	observer *observer

	// rested is the number of requests until the manager was idle after its start.
	rested int

	result result
}

// measure measures one size on a separate management cluster.
func measure(ctx context.Context, settings settings, size int) (_ result, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	server, err := settings.subject.startServer(ctx)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, server.Stop()) }()
	s := &session{settings: settings, server: server, result: result{size: size, hosts: size}}
	if settings.competitors > 0 {
		s.result.hosts += size / 2
	}
	if s.observer, err = newObserver(ctx, server.Config); err != nil {
		return result{}, err
	}
	var phases []func(context.Context) error
	switch {
	case settings.arrivals:
		phases = []func(context.Context) error{s.begin, s.wait, s.arrive, s.readPeakMemory}
	case settings.association:
		phases = []func(context.Context) error{s.begin, s.associate, s.readPeakMemory}
	default:
		phases = []func(context.Context) error{s.begin, s.associate, s.provision, s.idle, s.release}
	}
	for _, phase := range phases {
		if err := s.inTime(ctx, phase); err != nil {
			return result{}, err
		}
	}
	if !settings.subject.isChecked {
		s.result.problems = nil
	}
	return s.result, nil
}

// inTime runs a phase with a time limit.
func (s *session) inTime(ctx context.Context, phase func(context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, s.settings.patience)
	defer cancel()
	if err := phase(limited); err != nil {
		if s.manager != nil {
			return fmt.Errorf("%w\nEnd of the log of the manager:\n%s", err, s.manager.child.LogTail())
		}
		return err
	}
	return nil
}

// begin creates all objects except the machines, and waits until the manager is idle.
func (s *session) begin(ctx context.Context) error {
	var err error
	state := bmov1alpha1.StateAvailable
	if s.settings.arrivals {
		state = bmov1alpha1.StateInspecting
	}
	if s.fixture, err = prepare(ctx, s.server.Client, s.result.hosts, s.result.size, state); err != nil {
		return err
	}
	s.result.plainCreation = s.fixture.creation
	if s.manager, err = startManager(ctx, s.server, s.settings); err != nil {
		return err
	}
	if err := s.fixture.createInfrastructure(ctx); err != nil {
		return err
	}
	requests, err := s.rest(ctx)
	if err != nil {
		return err
	}
	s.rested = len(requests)
	s.result.started, err = s.manager.usage()
	return err
}

// associate creates the machines and waits until each reports its host.
func (s *session) associate(ctx context.Context) error {
	others, err := newContest(s.server, s.settings.competitors, s.fixture.hosts)
	if err != nil {
		return err
	}
	if s.settings.competitors > 0 {
		s.result.contest = others
	}
	var work errgroup.Group
	if err := s.untilAssociated(ctx, func() error {
		work.Go(func() error { return others.run(ctx) })
		return s.createMachines(ctx)
	}); err != nil {
		return err
	}
	return errors.Join(work.Wait(), s.verifyClaims(ctx))
}

func (s *session) createMachines(ctx context.Context) error {
	if err := inParallel(s.result.size, func(number int) error {
		return s.fixture.client.Create(ctx, s.fixture.machines[number])
	}); err != nil {
		return fmt.Errorf("creating Metal3Machines: %w", err)
	}
	return nil
}

// untilAssociated calls a function that makes associations possible, and waits until each machine reports its host.
func (s *session) untilAssociated(ctx context.Context, do func() error) error {
	associated := newTracker("machines with a host", s.result.size, isAssociated)
	if err := s.observer.track(ctx, &infrav1.Metal3Machine{}, associated); err != nil {
		return err
	}
	before, err := s.manager.usage()
	if err != nil {
		return err
	}
	var work errgroup.Group
	claimed := make(chan struct{})
	work.Go(func() error { return s.profile(ctx, claimed) })
	start := time.Now()
	if err := do(); err != nil {
		return err
	}
	created := time.Now()
	done, err := associated.wait(ctx)
	close(claimed)
	if err != nil {
		return err
	}
	own, err := s.manager.usage()
	if err != nil {
		return err
	}
	s.result.creation, s.result.associated, s.result.afterLast = created.Sub(start), done.Sub(start), done.Sub(created)
	requests, after, err := s.settle(ctx, own)
	if err != nil {
		return err
	}
	// The time while this program waits for an idle manager does not count.
	after.own = own.own
	s.result.used = after.since(before)
	s.result.association = requests[s.rested:]
	return work.Wait()
}

// settle waits until the manager is idle after the association, and returns all requests and the usage. CAPM3 is
// never idle while a machine waits for its Node. For a manager that is not checked, settle returns the values of the
// association.
func (s *session) settle(ctx context.Context, associated usage) ([]env.Request, usage, error) {
	if !s.settings.subject.isChecked {
		requests, err := s.server.Requests()
		return requests, associated, err
	}
	requests, err := s.rest(ctx)
	if err != nil {
		return nil, usage{}, err
	}
	used, err := s.manager.usage()
	return requests, used, err
}

// provision lets the simulated BMO provision all claimed hosts, until the end of the session.
func (s *session) provision(ctx context.Context) error {
	seen := s.rested + len(s.result.association)
	if err := s.untilHosts(ctx, "provisioned hosts", bmov1alpha1.StateProvisioned); err != nil {
		return err
	}
	requests, err := s.rest(ctx)
	if err != nil {
		return err
	}
	s.result.provisioning = requests[seen:]
	return nil
}

func (s *session) untilHosts(ctx context.Context, what string, state bmov1alpha1.ProvisioningState) error {
	reached := newTracker(what, s.result.size, func(object client.Object) bool {
		host, isHost := object.(*bmov1alpha1.BareMetalHost)
		return isHost && isMachine(host.Spec.ConsumerRef) && host.Status.Provisioning.State == state
	})
	if err := s.observer.track(ctx, &bmov1alpha1.BareMetalHost{}, reached); err != nil {
		return err
	}
	return s.simulate(ctx, func() error {
		_, err := reached.wait(ctx)
		return err
	})
}

// simulate simulates BMO while a function runs.
func (s *session) simulate(ctx context.Context, do func() error) error {
	simulation, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- hostsim.Run(simulation, s.server.Config) }()
	err := do()
	stop()
	return errors.Join(err, <-ended)
}

// release deletes all machines and waits until their hosts are free.
func (s *session) release(ctx context.Context) error {
	seen := s.rested + len(s.result.association) + len(s.result.provisioning) + len(s.result.idle)
	available := newTracker("hosts that are available again", s.result.hosts, isAvailable)
	free := newTracker("hosts without a machine", s.result.hosts, isFree)
	gone := newTracker("machines that are left", 0, func(client.Object) bool { return true })
	for _, tracked := range []*tracker{available, free} {
		if err := s.observer.track(ctx, &bmov1alpha1.BareMetalHost{}, tracked); err != nil {
			return err
		}
	}
	if err := s.observer.track(ctx, &infrav1.Metal3Machine{}, gone); err != nil {
		return err
	}
	err := s.simulate(ctx, func() error {
		start := time.Now()
		if err := inParallel(s.result.size, func(number int) error {
			return s.fixture.client.Delete(ctx, s.fixture.machines[number])
		}); err != nil {
			return fmt.Errorf("deleting Metal3Machines: %w", err)
		}
		last, err := available.wait(ctx)
		if err != nil {
			return err
		}
		end := last
		for _, tracked := range []*tracker{free, gone} {
			reached, err := tracked.wait(ctx)
			if err != nil {
				return err
			}
			end = later(end, reached)
		}
		s.result.available, s.result.released = last.Sub(start), end.Sub(last)
		return nil
	})
	if err != nil {
		return err
	}
	requests, err := s.rest(ctx)
	if err != nil {
		return err
	}
	s.result.release = requests[seen:]
	if err := s.readPeakMemory(ctx); err != nil {
		return err
	}
	return s.verifyRelease(ctx, requests[s.rested:])
}

// readPeakMemory reads the peak memory of the manager.
func (s *session) readPeakMemory(context.Context) error {
	used, err := s.manager.usage()
	if err != nil {
		return err
	}
	s.result.memory = used.memory
	s.result.problems = append(s.result.problems, memoryProblems(used.memory, s.result.size)...)
	return nil
}

// rest waits until the manager sends no requests and uses no processor, and returns all requests so far.
func (s *session) rest(ctx context.Context) ([]env.Request, error) {
	ticker := time.NewTicker(quietInterval)
	defer ticker.Stop()
	var worked time.Duration
	for samples, before := 0, -1; ; {
		requests, err := s.server.Requests()
		if err != nil {
			return nil, err
		}
		used, err := s.manager.usage()
		if err != nil {
			return nil, err
		}
		if now := len(ofManager(requests)); now != before || used.manager-worked > idle {
			samples, before = 0, now
		}
		worked = used.manager
		if samples++; samples > quietSamples {
			return requests, nil
		}
		select {
		case <-ticker.C:
		case <-s.manager.child.Done():
			return nil, errors.New("the manager ended")
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting until the manager is idle: %w", ctx.Err())
		}
	}
}

// profile stores CPU profiles of the manager until all hosts are claimed, and then a heap profile, if requested.
func (s *session) profile(ctx context.Context, claimed <-chan struct{}) error {
	if s.manager.profiler == "" {
		return nil
	}
	store := func(page, file string) error {
		path := filepath.Join(s.settings.profiles, file)
		if err := fetch(ctx, "http://"+s.manager.profiler+"/debug/pprof/"+page, path); err != nil {
			return fmt.Errorf("profiling the manager: %w", err)
		}
		return nil
	}
	for part := 1; ; part++ {
		page := fmt.Sprintf("profile?seconds=%d", profileSeconds)
		if err := store(page, fmt.Sprintf("processor-%d-%03d.pprof", s.result.size, part)); err != nil {
			return err
		}
		select {
		case <-claimed:
			return store("heap", fmt.Sprintf("heap-%d.pprof", s.result.size))
		default:
		}
	}
}

func isAssociated(object client.Object) bool {
	machine, isMachine := object.(*infrav1.Metal3Machine)
	return isMachine && meta.IsStatusConditionTrue(machine.Status.Conditions, infrav1.HostAssociatedCondition)
}

func isAvailable(object client.Object) bool {
	host, isHost := object.(*bmov1alpha1.BareMetalHost)
	return isHost && host.Status.Provisioning.State == bmov1alpha1.StateAvailable
}

func isFree(object client.Object) bool {
	host, isHost := object.(*bmov1alpha1.BareMetalHost)
	return isHost && !isMachine(host.Spec.ConsumerRef)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
