package hoststore

import (
	"cmp"
	"context"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// queue holds the machines that wait for a host, and which free host was offered to whom.
//
//	host becomes free        -> offered to the waiter that came first of those that could take it; that one is woken
//	waiter looks again       -> keeps its place, for as long as it waits
//	woken machine takes it   -> the offer ends
//	woken machine does not   -> Settle offers the host to the next waiter that came before the host became free
//	reservation ends         -> all waiters that it was for are woken: other hosts may do for them now
//
// A machine that looked again, or declined, has a later turn than the offers before, so an offer visits every waiter at
// most once and ends.
type queue struct {
	turn uint64
	// arrivals are the places: the turn in which a machine began to wait. It lasts until the machine settles as one that
	// waits no more.
	arrivals map[Key]uint64
	// waiters are the machines that an offer may wake now. Their turn is that of their last look.
	waiters map[Key]waiter
	offers  map[Key]offer
}

type waiter struct {
	wanted host.Wanted
	turn   uint64
}

type offer struct {
	machine Key
	turn    uint64
}

func newQueue() queue {
	return queue{arrivals: map[Key]uint64{}, waiters: map[Key]waiter{}, offers: map[Key]offer{}}
}

func (q *queue) add(machine Key, wanted host.Wanted) {
	q.turn++
	q.waiters[machine] = waiter{wanted: wanted, turn: q.turn}
	if _, waits := q.arrivals[machine]; !waits {
		q.arrivals[machine] = q.turn
	}
}

// remove keeps offers from a machine that was woken or has chosen. It keeps its place until it settles.
func (q *queue) remove(machine Key) { delete(q.waiters, machine) }

// leave takes a machine out of the queue that waits no more.
func (q *queue) leave(machine Key) {
	q.remove(machine)
	delete(q.arrivals, machine)
}

// next returns the first waiter before a turn that could take the host.
func (q *queue) next(candidate host.Candidate, before uint64) (Key, bool) {
	var found []Key
	for machine, waiting := range q.waiters {
		if waiting.turn < before && host.Concerns(candidate, waiting.wanted) {
			found = append(found, machine)
		}
	}
	if len(found) == 0 {
		return Key{}, false
	}
	q.sort(found)
	return found[0], true
}

// sort puts waiters into the order in which they came.
func (q *queue) sort(machines []Key) {
	slices.SortFunc(machines, func(a, b Key) int { return cmp.Compare(q.arrivals[a], q.arrivals[b]) })
}

func (s *Store) enter(machine Key, wanted host.Wanted) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queue.add(machine, wanted)
}

// Settle ends the turn of a machine. A host that was offered to it and that it did not take is offered to the next
// one. A machine that waits no more leaves the queue.
func (s *Store) Settle(ctx context.Context, machine Key, waits bool) {
	for _, left := range s.settle(machine, waits) {
		current := &bmov1alpha1.BareMetalHost{}
		if err := s.client.Get(ctx, left.host, current); err != nil {
			// A host that is gone, or a cache that stops, has nothing to offer.
			continue
		}
		s.offer(current, left.turn)
	}
}

type leftOffer struct {
	host Key
	turn uint64
}

func (s *Store) settle(machine Key, waits bool) []leftOffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !waits {
		s.queue.leave(machine)
	}
	var left []leftOffer
	for key, made := range s.queue.offers {
		if made.machine == machine {
			delete(s.queue.offers, key)
			left = append(left, leftOffer{host: key, turn: made.turn})
		}
	}
	slices.SortFunc(left, func(a, b leftOffer) int { return cmp.Compare(a.turn, b.turn) })
	return left
}

// observe takes note of a host that the cache shows now. Previous is what it showed before, nil for a new host.
func (s *Store) observe(previous, current *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(current)
	s.mu.Lock()
	if s.shows(key, current) {
		s.drop(key)
	}
	s.keep(key, current)
	if s.outdated[key] != current.ResourceVersion {
		delete(s.outdated, key)
	}
	s.queue.turn++
	turn := s.queue.turn
	s.mu.Unlock()
	s.offer(current, turn)
	s.unreserve(previous, current)
}

// keep holds a host in the pool for as long as no machine holds it. A nil host is one that does not exist. The caller
// holds the lock.
func (s *Store) keep(key Key, current *bmov1alpha1.BareMetalHost) {
	if current == nil || !host.InPool(current) {
		delete(s.pool[key.Namespace], key)
		return
	}
	if s.pool[key.Namespace] == nil {
		s.pool[key.Namespace] = map[Key]*bmov1alpha1.BareMetalHost{}
	}
	s.pool[key.Namespace][key] = current
}

// shows says whether the cache has come to know how an assumption ended: it shows the claim, or something newer than a
// claim that was written. The caller holds the lock.
func (s *Store) shows(key Key, current *bmov1alpha1.BareMetalHost) bool {
	by, assumed := s.assumed[key]
	if !assumed || host.ConsumedBy(current, by.Namespace, by.Name) {
		return assumed
	}
	written := s.stored[key]
	if written == nil {
		return false
	}
	order, err := resourceversion.CompareResourceVersion(current.ResourceVersion, written.ResourceVersion)
	return err == nil && order > 0
}

// unreserve wakes the machines that a host was reserved for and is not any more. They may have waited for this host
// although others were free. A nil host is one that does not exist.
func (s *Store) unreserve(previous, current *bmov1alpha1.BareMetalHost) {
	if previous == nil {
		return
	}
	s.mu.Lock()
	var found []Key
	for machine, waiting := range s.queue.waiters {
		if host.ReservedFor(previous, waiting.wanted) &&
			(current == nil || !host.ReservedFor(current, waiting.wanted)) {
			found = append(found, machine)
		}
	}
	s.queue.sort(found)
	for _, machine := range found {
		s.queue.remove(machine)
	}
	s.mu.Unlock()
	for _, machine := range found {
		s.wake(machine)
	}
}

// lost takes note of a host that is gone.
func (s *Store) lost(gone *bmov1alpha1.BareMetalHost) {
	key := client.ObjectKeyFromObject(gone)
	s.mu.Lock()
	s.drop(key)
	s.keep(key, nil)
	delete(s.outdated, key)
	delete(s.queue.offers, key)
	s.mu.Unlock()
	s.unreserve(gone, nil)
}

func (s *Store) offer(current *bmov1alpha1.BareMetalHost, turn uint64) {
	key := client.ObjectKeyFromObject(current)
	s.mu.Lock()
	if made, offered := s.queue.offers[key]; offered {
		// Somebody is looking at it already. If that one declines, the others get their turn.
		s.queue.offers[key] = offer{machine: made.machine, turn: max(made.turn, turn)}
		s.mu.Unlock()
		return
	}
	machine, found := s.queue.next(s.candidate(current, Key{}), turn)
	if found {
		s.queue.remove(machine)
		s.queue.offers[key] = offer{machine: machine, turn: turn}
	}
	s.mu.Unlock()
	if found {
		s.wake(machine)
	}
}
