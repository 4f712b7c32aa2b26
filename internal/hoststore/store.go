package hoststore

import (
	"context"
	"fmt"
	"reflect"
	"sync"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// ErrConflict is the write conflict that Write returns for a host that has changed since it was read.
var ErrConflict error = &apierrors.StatusError{ErrStatus: metav1.Status{
	Reason: metav1.StatusReasonConflict, Message: "the BareMetalHost has changed since it was read",
}}

// Key names an object.
type Key = types.NamespacedName

// Store reads and writes hosts.
type Store struct {
	client client.Client
	// live reads from the API server.
	live client.Reader
	// enqueue enqueues a machine in its controller.
	enqueue func(machine Key)
	// poolComplete returns true once the pool holds the first list of the watch.
	poolComplete func() bool

	// mu guards the fields below.
	mu        sync.Mutex
	pool      pool
	assumed   assumeCache
	waitlists map[string]*waitlist
}

// New returns a store that reads from the cache of the client. The live reader serves reads for which the cache may be
// too old.
func New(c client.Client, live client.Reader) *Store {
	return &Store{
		client: c, live: live, enqueue: func(Key) {}, poolComplete: func() bool { return false },
		pool: newPool(), assumed: newAssumeCache(), waitlists: map[string]*waitlist{},
	}
}

// Choose chooses a host for a machine and assumes it. If no host passes, the store enqueues the machine once it may
// claim one. Choose returns an error if the cached read fails.
//
//	the machine                                      reads
//	must have the host that a user named             this host
//	was offered a host and prefers no other          this host
//	found no host, and nothing changed since          nothing
//	anything else                                    reserved hosts of its owner, and claimable hosts until some pass
//	finds no host, and the hosts were not counted    all hosts of its namespace, for the message
//
// After a refused claim, Choose chooses no host until the pause of the machine ends, and then another host. Once all
// hosts refused the machine, it starts over.
func (s *Store) Choose(ctx context.Context, wanted host.Wanted) (host.Choice, error) {
	wanted.Refused = s.request(wanted)
	choice, err := s.chooseOnce(ctx, wanted)
	if err != nil || !choice.Refused || wanted.Refused {
		return choice, err
	}
	s.startOver(Key{Namespace: wanted.Namespace, Name: wanted.Machine})
	return s.chooseOnce(ctx, wanted)
}

// chooseOnce is Choose with the recorded refusals.
func (s *Store) chooseOnce(ctx context.Context, wanted host.Wanted) (host.Choice, error) {
	if wanted.Named != "" {
		return s.chooseNamed(ctx, wanted)
	}
	choice, began, done := s.chooseFree(wanted)
	if done {
		return choice, nil
	}
	hosts, err := s.Hosts(ctx, wanted.Namespace)
	if err != nil {
		return host.Choice{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	choice = s.choose(wanted, hosts)
	if began > 0 && choice.Host == nil && len(choice.Awaited) == 0 {
		s.waitlist(wanted.Namespace).recordCount(s.keyOf(wanted), began, choice, len(hosts), s.assumed.clock.Now())
	}
	return choice, nil
}

// chooseNamed chooses the host that a user named.
func (s *Store) chooseNamed(ctx context.Context, wanted host.Wanted) (host.Choice, error) {
	var hosts []*bmov1alpha1.BareMetalHost
	named := &bmov1alpha1.BareMetalHost{}
	err := s.client.Get(ctx, Key{Namespace: wanted.Namespace, Name: wanted.Named}, named)
	switch {
	case err == nil:
		hosts = append(hosts, named)
	case !apierrors.IsNotFound(err):
		return host.Choice{}, fmt.Errorf("reading BareMetalHost %s: %w", wanted.Named, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.choose(wanted, hosts), nil
}

// request records the request of a machine, so that the waitlist gets a host that becomes free during the search. It
// returns true while the machine is paused. No offer reaches such a machine: it requeues itself.
func (s *Store) request(wanted host.Wanted) (paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waitlist(wanted.Namespace)
	list.add(wanted)
	paused = s.assumed.retryAfter(Key{Namespace: wanted.Namespace, Name: wanted.Machine}) > 0
	if paused {
		list.close(list.waiters[wanted.Machine])
	}
	return paused
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

// chooseFree chooses from the pool. It returns false if the caller must search all hosts: before the pool is complete,
// and to count them. For a count it also returns the sequence number of the search.
func (s *Store) chooseFree(wanted host.Wanted) (choice host.Choice, began uint64, done bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waitlist(wanted.Namespace)
	if !s.poolComplete() {
		return host.Choice{}, 0, false
	}
	candidate := func(current *bmov1alpha1.BareMetalHost) host.Candidate {
		return s.assumed.candidate(current, Key{Namespace: wanted.Namespace, Name: wanted.Machine})
	}
	if offered := s.pool.offered(list.offeredTo[wanted.Machine], wanted, candidate); offered != nil {
		return s.choose(wanted, []*bmov1alpha1.BareMetalHost{offered}), 0, true
	}
	key, now := s.keyOf(wanted), s.assumed.clock.Now()
	if !list.isSearched(key, now) {
		choice = s.choose(wanted, s.pool.candidates(wanted, candidate))
		if choice.Host != nil || len(choice.Awaited) > 0 {
			return choice, 0, true
		}
	}
	choice, done = list.count(key, now)
	return choice, list.sequence, done
}

// keyOf returns the key of the shortage of a machine. The caller holds the lock.
func (s *Store) keyOf(wanted host.Wanted) request {
	key := requestOf(wanted)
	if _, refused := s.assumed.pauses[Key{Namespace: wanted.Namespace, Name: wanted.Machine}]; refused {
		key.refused = wanted.Machine
	}
	return key
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
	if len(choice.Awaited) > 0 {
		// The machines ahead matter only for a busy reserved host.
		wanted.Ahead = list.ahead(wanted, choice.Awaited)
		choice = host.Choose(candidates, wanted)
	}
	if choice.Host != nil {
		s.assumed.assume(client.ObjectKeyFromObject(choice.Host), machine)
		list.recordChange(false)
		list.setChosen(wanted.Machine)
	}
	if choice.Refused {
		choice.RetryAfter = s.assumed.retryAfter(machine)
	}
	return choice
}

// Write patches metadata and spec of the current host to the desired ones and returns the stored host. It writes
// nothing if they are equal. It returns ErrConflict if the host has changed since the current copy was read.
func (s *Store) Write(ctx context.Context, current, desired *bmov1alpha1.BareMetalHost,
) (*bmov1alpha1.BareMetalHost, error) {
	// The comparison costs less than a patch, and most calls find no difference. Most of a host is its status.
	before, after := withoutStatus(current), withoutStatus(desired)
	if reflect.DeepEqual(before, after) || equality.Semantic.DeepEqual(before, after) {
		return current, nil
	}
	before.ResourceVersion, after.ResourceVersion = "", current.ResourceVersion
	patch, err := client.MergeFrom(before).Data(after)
	if err != nil {
		return nil, fmt.Errorf("comparing BareMetalHost %s: %w", current.Name, err)
	}
	// The API server sends only the metadata of the stored host, which costs less than the whole host.
	answer := &metav1.PartialObjectMetadata{}
	answer.Namespace, answer.Name = current.Namespace, current.Name
	answer.SetGroupVersionKind(bmov1alpha1.GroupVersion.WithKind("BareMetalHost"))
	err = s.client.Patch(ctx, answer, client.RawPatch(types.MergePatchType, patch))
	switch {
	case err == nil:
		answer.ManagedFields = nil
		stored := *desired
		stored.ObjectMeta = answer.ObjectMeta
		s.confirm(&stored)
		return &stored, nil
	case apierrors.IsConflict(err):
		s.conflicted(current, desired)
		conflicts.Inc()
		return nil, fmt.Errorf("writing BareMetalHost %s: %w", current.Name, ErrConflict)
	case outcome.IsRefused(err):
		s.refused(context.WithoutCancel(ctx), current, desired, err)
		return nil, Refusal{describeRefusal(current, desired, err)}
	default:
		return nil, fmt.Errorf("writing BareMetalHost %s: %w", current.Name, err)
	}
}

// content is a host without its status in JSON.
type content struct {
	*bmov1alpha1.BareMetalHost
	Status any `json:"status,omitempty"`
}

func withoutStatus(whole *bmov1alpha1.BareMetalHost) content {
	return content{BareMetalHost: &bmov1alpha1.BareMetalHost{ObjectMeta: whole.ObjectMeta, Spec: whole.Spec}}
}

// conflicted marks the current copy as outdated, so that no machine chooses it, and ends a rejected claim.
func (s *Store) conflicted(current, desired *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if list := s.waitlists[current.Namespace]; list != nil {
		list.recordChange(false)
	}
	if s.assumed.outdate(current, desired) {
		s.abandon(client.ObjectKeyFromObject(current))
	}
}

func (s *Store) confirm(stored *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.assumed.confirm(stored)
}

// Forget drops what the store knows about a machine that requires no host, or that sent no claim of its chosen host.
// The caller must call Settle afterwards, which offers the assumed hosts to other machines.
func (s *Store) Forget(machine Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.abandonAll(machine)
	s.assumed.pardon(machine)
}

// abandonAll ends the assumptions of a machine. The caller holds the lock.
func (s *Store) abandonAll(machine Key) {
	for key, _, found := s.assumed.of(machine); found; key, _, found = s.assumed.of(machine) {
		s.abandon(key)
	}
}

// abandon ends an assumption without a claim. The caller holds the lock.
func (s *Store) abandon(key Key) {
	s.waitlist(key.Namespace).recordUnclaimed(key.Name, s.assumed.end(key).Name)
}

// Settle ends the reconcile of a machine. It offers hosts that the machine declined to the next machine, and removes
// the machine from the waitlist unless it waits.
func (s *Store) Settle(ctx context.Context, machine Key, waits bool) {
	for _, declined := range s.settle(machine, waits) {
		if current := s.cached(ctx, Key{Namespace: machine.Namespace, Name: declined.host}); current != nil {
			s.offerNext(current, declined.sequence)
		}
	}
}

func (s *Store) settle(machine Key, waits bool) []declinedOffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.waitlists[machine.Namespace]
	if list == nil {
		return nil
	}
	declined := list.settle(machine.Name, waits)
	if list.isEmpty() {
		delete(s.waitlists, machine.Namespace)
	}
	return declined
}

// cached returns a host of the cache. Nil if it was deleted, or if the cache stops.
func (s *Store) cached(ctx context.Context, key Key) *bmov1alpha1.BareMetalHost {
	current := &bmov1alpha1.BareMetalHost{}
	if err := s.client.Get(ctx, key, current); err != nil {
		return nil
	}
	return current
}

// offerNext offers a host to the next machine with a last request before the sequence number.
func (s *Store) offerNext(current *bmov1alpha1.BareMetalHost, sequence uint64) {
	s.mu.Lock()
	var next string
	var found bool
	if list := s.waitlists[current.Namespace]; list != nil {
		next, found = list.offer(s.assumed.candidate(current, Key{}), sequence, func(host.Wanted) bool { return true })
	}
	s.mu.Unlock()
	if found {
		s.enqueue(Key{Namespace: current.Namespace, Name: next})
	}
}

// observe updates the store for a change of a cached host. Previous is nil for a new host.
func (s *Store) observe(previous, current *bmov1alpha1.BareMetalHost) {
	for _, machine := range s.affected(previous, current) {
		s.enqueue(Key{Namespace: current.Namespace, Name: machine})
	}
}

// affected updates the memory of the store and returns the machines to enqueue.
func (s *Store) affected(previous, current *bmov1alpha1.BareMetalHost) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	ended, gained := s.assumed.observe(current), s.pool.update(current)
	list := s.waitlists[current.Namespace]
	if list == nil {
		return nil
	}
	list.recordChange(ended || gained)
	var machines []string
	first, found := list.offer(s.assumed.candidate(current, Key{}), list.sequence, func(wanted host.Wanted) bool {
		return previous == nil || ended || host.AltersChoice(previous, current, wanted)
	})
	if found {
		machines = append(machines, first)
	}
	if previous != nil {
		machines = append(machines, list.unreserve(previous, current)...)
	}
	return machines
}

// deleted drops the state of a deleted host and enqueues the machines that it was reserved for.
func (s *Store) deleted(gone *bmov1alpha1.BareMetalHost) {
	s.mu.Lock()
	delete(s.assumed.hosts, client.ObjectKeyFromObject(gone))
	gained := s.pool.set(gone.Namespace, gone.Name, nil)
	var machines []string
	if list := s.waitlists[gone.Namespace]; list != nil {
		list.recordChange(gained)
		list.withdraw(gone.Name)
		machines = list.unreserve(gone, nil)
	}
	s.mu.Unlock()
	for _, machine := range machines {
		s.enqueue(Key{Namespace: gone.Namespace, Name: machine})
	}
}
