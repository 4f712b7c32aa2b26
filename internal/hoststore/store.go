package hoststore

import (
	"context"
	"errors"
	"fmt"
	"sync"

	jsonpatch "github.com/evanphx/json-patch/v5"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// ErrConflict is returned by Write when the host has changed since it was read.
var ErrConflict = errors.New("the BareMetalHost has changed since it was read")

// Key names an object.
type Key = types.NamespacedName

// Store reads and writes hosts.
type Store struct {
	client client.Client
	// live reads past the cache.
	live client.Reader
	// enqueue makes the controller reconcile a machine.
	enqueue func(machine Key)
	// poolComplete says whether the pool holds all hosts that were there when the process started.
	poolComplete func() bool

	// mu guards what follows.
	mu        sync.Mutex
	pool      pool
	assumed   assumeCache
	waitlists map[string]*waitlist

	answers answers
}

// New returns a store that reads through the client's cache. Live reads past it, for the moments when the cache is
// known to lag.
func New(c client.Client, live client.Reader) *Store {
	return &Store{
		client: c, live: live, enqueue: func(Key) {}, poolComplete: func() bool { return false },
		pool: pool{}, assumed: newAssumeCache(), waitlists: map[string]*waitlist{},
	}
}

// Choose picks a host for a machine and assumes it. When there is none, the machine is enqueued as soon as a host
// that it could take becomes free.
func (s *Store) Choose(ctx context.Context, wanted host.Wanted) (host.Choice, error) {
	// Before reading: a host that becomes free after the read finds the machine in the waitlist.
	s.enter(wanted)
	// The pool has no host that is busy, and a machine that names such a host waits for it.
	fromPool := wanted.Named == "" && s.poolComplete()
	if fromPool {
		if choice := s.chooseFree(wanted); choice.Host != nil {
			return choice, nil
		}
	}
	// Only the message requires all hosts, and machines with the same request share it.
	asked := request{wanted.Namespace, wishOf(wanted)}
	message, changes := s.answer(asked)
	if fromPool && message != "" {
		return host.Choice{Message: message}, nil
	}
	hosts, err := s.Hosts(ctx, wanted.Namespace)
	if err != nil {
		return host.Choice{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	choice := s.choose(wanted, hosts)
	if fromPool && choice.Host == nil && choice.Awaited == 0 {
		s.answers.keep(asked, choice.Message, changes)
	}
	return choice, nil
}

func (s *Store) answer(asked request) (message string, changes uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.of(asked)
}

func (s *Store) enter(wanted host.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waitlist(wanted.Namespace).enter(wanted)
}

// waitlist returns the waitlist of a namespace. The caller holds the lock.
func (s *Store) waitlist(namespace string) *waitlist {
	list := s.waitlists[namespace]
	if list == nil {
		list = newWaitlist()
		s.waitlists[namespace] = list
	}
	return list
}

// chooseFree chooses from the pool. A list from the cache would copy and check all hosts for every claim.
func (s *Store) chooseFree(wanted host.Wanted) host.Choice {
	s.mu.Lock()
	defer s.mu.Unlock()
	machine := Key{Namespace: wanted.Namespace, Name: wanted.Machine}
	return s.choose(wanted, s.pool.hosts(wanted, func(current *bmov1alpha1.BareMetalHost) host.Candidate {
		return s.assumed.candidate(current, machine)
	}))
}

// choose chooses one of the hosts and assumes it. The caller holds the lock.
func (s *Store) choose(wanted host.Wanted, hosts []*bmov1alpha1.BareMetalHost) host.Choice {
	machine := Key{Namespace: wanted.Namespace, Name: wanted.Machine}
	candidates := make([]host.Candidate, 0, len(hosts))
	for _, current := range hosts {
		candidates = append(candidates, s.assumed.candidate(current, machine))
	}
	list := s.waitlist(wanted.Namespace)
	choice := host.Choose(candidates, wanted)
	if choice.Awaited > 0 {
		// Counting the machines ahead costs more than the choice, and few owners have a busy reserved host.
		wanted.Ahead = list.ahead(wanted)
		choice = host.Choose(candidates, wanted)
	}
	if choice.Host != nil {
		s.assumed.assume(client.ObjectKeyFromObject(choice.Host), machine)
		s.answers.changed()
		list.found(wanted.Machine)
	}
	return choice
}

// Write stores the desired host and returns the stored one. It writes nothing if both are equal. It returns ErrConflict
// if the host has changed since the current one was read.
func (s *Store) Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost,
) (*bmov1alpha1.BareMetalHost, error) {
	// Most writes find everything as it should be, and comparing costs less than a patch.
	if equality.Semantic.DeepEqual(current, desired) {
		return current, nil
	}
	changes, err := client.MergeFrom(current).Data(desired)
	if err != nil {
		return nil, fmt.Errorf("comparing BareMetalHost %s: %w", current.Name, err)
	}
	if string(changes) == "{}" {
		return current, nil
	}
	version := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q}}`, current.ResourceVersion)
	patch, err := jsonpatch.MergeMergePatches(changes, version)
	if err != nil {
		return nil, fmt.Errorf("comparing BareMetalHost %s: %w", current.Name, err)
	}
	stored := desired.DeepCopy()
	err = s.client.Patch(ctx, stored, client.RawPatch(types.MergePatchType, patch))
	switch {
	case apierrors.IsConflict(err):
		s.refused(current, desired)
		conflicts.Inc()
		return nil, fmt.Errorf("writing BareMetalHost %s: %w", current.Name, ErrConflict)
	case apierrors.IsForbidden(err) && len(desired.OwnerReferences) < len(current.OwnerReferences):
		return nil, fmt.Errorf("removing ownerReferences of BareMetalHost %s, which requires the permission to delete "+
			"BareMetalHosts where the API server guards owners: %w", current.Name, err)
	case err != nil:
		return nil, fmt.Errorf("writing BareMetalHost %s: %w", current.Name, err)
	}
	s.confirm(stored)
	return stored, nil
}

// refused keeps the host from being chosen again from the same outdated copy, and ends the claim that was refused.
func (s *Store) refused(current, desired *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.changed()
	if s.assumed.refuse(current, desired) {
		s.abandon(client.ObjectKeyFromObject(current))
	}
}

func (s *Store) confirm(stored *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assumed.confirm(stored)
}

// Forget ends the assumptions of a machine that wants no host any more. The caller must call Settle afterwards: it
// offers the hosts to the machines that have waited meanwhile.
func (s *Store) Forget(machine Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, claim, found := s.assumed.of(machine); found; key, claim, found = s.assumed.of(claim.machine) {
		s.abandon(key)
	}
}

// abandon ends an assumption that led to no claim. The caller holds the lock.
func (s *Store) abandon(key Key) {
	machine := s.assumed.claims[key].machine
	delete(s.assumed.claims, key)
	s.answers.changed()
	s.waitlist(key.Namespace).pass(key.Name, machine.Name)
}

// Settle ends the turn of a machine. A host that was offered to the machine and that it did not take is offered to the
// next one. A machine that waits no more leaves the waitlist.
func (s *Store) Settle(ctx context.Context, machine Key, waits bool) {
	for _, left := range s.settle(machine, waits) {
		current := &bmov1alpha1.BareMetalHost{}
		if err := s.client.Get(ctx, Key{Namespace: machine.Namespace, Name: left.host}, current); err != nil {
			// A host that was deleted, or a cache that stops, has nothing to offer.
			continue
		}
		s.passOn(current, left.turn)
	}
}

func (s *Store) settle(machine Key, waits bool) []leftOffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waitlists[machine.Namespace]
	if list == nil {
		return nil
	}
	left := list.settle(machine.Name, waits)
	if list.isEmpty() {
		delete(s.waitlists, machine.Namespace)
	}
	return left
}

// passOn offers a host that a machine did not take to the machines that looked before a turn.
func (s *Store) passOn(current *bmov1alpha1.BareMetalHost, turn uint64) {
	s.mu.Lock()
	var next string
	var found bool
	if list := s.waitlists[current.Namespace]; list != nil {
		next, found = list.offer(s.assumed.candidate(current, Key{}), turn, func(host.Wanted) bool { return true })
	}
	s.mu.Unlock()
	if found {
		s.enqueue(Key{Namespace: current.Namespace, Name: next})
	}
}

// observe compares the memory with a host that the cache shows now. Previous is what it showed before, nil for a new
// host.
func (s *Store) observe(previous, current *bmov1alpha1.BareMetalHost) {
	for _, machine := range s.concerned(previous, current) {
		s.enqueue(Key{Namespace: current.Namespace, Name: machine})
	}
}

// concerned returns the machines to enqueue after a change of a host.
func (s *Store) concerned(previous, current *bmov1alpha1.BareMetalHost) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers.changed()
	ended := s.assumed.observe(current)
	s.pool.keep(current)
	list := s.waitlists[current.Namespace]
	if list == nil {
		return nil
	}
	list.turn++
	var machines []string
	first, found := list.offer(s.assumed.candidate(current, Key{}), list.turn, func(wanted host.Wanted) bool {
		return previous == nil || ended || host.IsNews(previous, current, wanted)
	})
	if found {
		machines = append(machines, first)
	}
	if previous != nil {
		machines = append(machines, list.unreserve(previous, current)...)
	}
	return machines
}

// deleted drops what is remembered of a host that was deleted.
func (s *Store) deleted(gone *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	s.answers.changed()
	s.assumed.forget(client.ObjectKeyFromObject(gone))
	s.pool.remove(gone)
	var machines []string
	if list := s.waitlists[gone.Namespace]; list != nil {
		list.withdraw(gone.Name)
		machines = list.unreserve(gone, nil)
	}
	s.mu.Unlock()
	for _, machine := range machines {
		s.enqueue(Key{Namespace: gone.Namespace, Name: machine})
	}
}
