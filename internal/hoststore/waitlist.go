package hoststore

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// waitlist holds the machines of one namespace that wait for a host, and the hosts that are offered to them.
//
//	event                                waitlist
//	a host changes                       offers the host to the first machine that the change can matter to
//	a machine reconciles                 keeps its place until Settle removes it
//	a machine claims the host            ends the offer
//	a machine settles without the host   offers the host to the next machine that chose before the change
//	a reservation of a host ends         enqueues all machines of the reservation: another host may suit them now
//
// An offer has a sequence number. It reaches only machines that chose before it, so it reaches each machine at most
// once. The lock of the store guards all methods.
type waitlist struct {
	// sequence counts the requests of machines, and the changes of hosts and assumptions in the namespace. Changed is the
	// number of the last change, and gained that of the last one that may give a host to a machine that found none.
	sequence, changed, gained uint64

	// waiters holds each machine from its first request until it settles and stops waiting.
	waiters map[string]*waiter

	// open holds the waiters that an offer may enqueue, in the order of their first request. The waiters of one list
	// require the same of a host without a reservation, so one check covers all of them.
	open map[requirement][]*waiter

	// owned holds the waiters that have not chosen a host, by owner and Cluster, in the order of their first request. Only
	// these matter for a reserved host.
	owned map[string]map[string][]*waiter

	// offers holds, by host, the offers to machines that have not settled yet. offeredTo holds the hosts by machine.
	offers    map[string]offer
	offeredTo map[string][]string

	// shortages holds what the last search and count found for each request that found no host.
	shortages map[request]shortage
}

type waiter struct {
	wanted   host.Wanted
	requires requirement

	// first and last are the sequence numbers of its first and its last request.
	first, last uint64

	// isOpen is true after a request, until an offer enqueues the machine or the machine chooses a host.
	isOpen bool
}

// request is what a machine requires of a host, without the name of the machine. Refused is the name of a machine that
// some hosts refuse, because it does not share what it finds with other machines.
type request struct {
	cluster, owner, named, selector, failureDomain, refused string
	strict                                                  bool
}

// shortage is the state of a request that found no host. All machines with this request share it.
type shortage struct {
	// searched and counted are the sequence numbers of the last search, and of the last count of the hosts. A search lasts
	// until the next gain, a count until the next change, and in a large namespace at least until fresh.
	searched, counted uint64
	fresh             time.Time

	// message is the count. retry is the time when a refused host passes again. Zero means that none is refused.
	message string
	retry   time.Time
}

// countedAtOnce is the number of hosts up to which each reconcile of a waiting machine counts them. A count of more
// hosts lasts for a millisecond per host, so that counting takes at most a thousandth of a processor per request.
const countedAtOnce = 100

// requirement is what a machine requires of a host that is not reserved.
type requirement struct{ named, selector, failureDomain string }

// offer is a host that a machine was enqueued for. If the machine declines, a waiter with an earlier last request gets
// the next offer.
type offer struct {
	machine  string
	sequence uint64
}

// declinedOffer is an offer of a machine that settled without the host.
type declinedOffer struct {
	host     string
	sequence uint64
}

func newWaitlist() *waitlist {
	return &waitlist{
		waiters: map[string]*waiter{}, open: map[requirement][]*waiter{}, owned: map[string]map[string][]*waiter{},
		offers: map[string]offer{}, offeredTo: map[string][]string{}, shortages: map[request]shortage{},
	}
}

func requestOf(wanted host.Wanted) request {
	result := request{
		cluster: wanted.Cluster, owner: wanted.Owner, named: wanted.Named, failureDomain: wanted.FailureDomain,
		strict: wanted.Strict,
	}
	if wanted.Selector != nil {
		result.selector = wanted.Selector.String()
	}
	return result
}

func requirementOf(wanted host.Wanted) requirement {
	all := requestOf(wanted)
	if !wanted.Strict {
		all.failureDomain = ""
	}
	return requirement{named: all.named, selector: all.selector, failureDomain: all.failureDomain}
}

// add records a request and opens its waiter. A machine that waits already keeps its place.
func (w *waitlist) add(wanted host.Wanted) {
	w.sequence++
	current := w.waiters[wanted.Machine]
	if current == nil {
		current = &waiter{first: w.sequence}
		w.waiters[wanted.Machine] = current
	}
	w.close(current)
	w.disown(current)
	current.wanted, current.requires = wanted, requirementOf(wanted)
	current.last, current.isOpen = w.sequence, true
	w.open[current.requires] = inserted(w.open[current.requires], current)
	if wanted.Owner == "" {
		return
	}
	if w.owned[wanted.Owner] == nil {
		w.owned[wanted.Owner] = map[string][]*waiter{}
	}
	w.owned[wanted.Owner][wanted.Cluster] = inserted(w.owned[wanted.Owner][wanted.Cluster], current)
}

// position returns the index of the waiter with that first request.
func position(waiters []*waiter, first uint64) (at int, found bool) {
	return slices.BinarySearchFunc(waiters, first, func(current *waiter, first uint64) int {
		return cmp.Compare(current.first, first)
	})
}

func inserted(waiters []*waiter, next *waiter) []*waiter {
	at, _ := position(waiters, next.first)
	return slices.Insert(waiters, at, next)
}

func removed(waiters []*waiter, gone *waiter) []*waiter {
	if at, found := position(waiters, gone.first); found {
		return slices.Delete(waiters, at, at+1)
	}
	return waiters
}

// close excludes a waiter from offers. The waiter keeps its place.
func (w *waitlist) close(current *waiter) {
	if !current.isOpen {
		return
	}
	current.isOpen = false
	key := current.requires
	if w.open[key] = removed(w.open[key], current); len(w.open[key]) == 0 {
		delete(w.open, key)
	}
}

// disown excludes a waiter from the machines that wait before others of its owner.
func (w *waitlist) disown(current *waiter) {
	owner, cluster := current.wanted.Owner, current.wanted.Cluster
	clusters := w.owned[owner]
	if clusters == nil {
		return
	}
	if clusters[cluster] = removed(clusters[cluster], current); len(clusters[cluster]) == 0 {
		delete(clusters, cluster)
	}
	if len(clusters) == 0 {
		delete(w.owned, owner)
	}
}

// setChosen records that a machine has chosen a host.
func (w *waitlist) setChosen(machine string) {
	if current := w.waiters[machine]; current != nil {
		w.close(current)
		w.disown(current)
	}
}

// ahead returns the number of machines that wait before a machine for one of the busy hosts that it awaits. It stops at
// the number of these hosts. Machines of the list with the same requirement await the same hosts.
func (w *waitlist) ahead(wanted host.Wanted, awaited []*bmov1alpha1.BareMetalHost) int {
	self := w.waiters[wanted.Machine]
	if self == nil {
		return 0
	}
	waiters, count, competes := w.owned[wanted.Owner][wanted.Cluster], 0, map[requirement]bool{}
	for at := 0; count < len(awaited) && at < len(waiters) && waiters[at].first < self.first; at++ {
		key := waiters[at].requires
		if _, known := competes[key]; !known {
			competes[key] = slices.ContainsFunc(awaited, func(busy *bmov1alpha1.BareMetalHost) bool {
				return host.Awaits(waiters[at].wanted, busy)
			})
		}
		if competes[key] {
			count++
		}
	}
	return count
}

// offer offers a host to the first open waiter with an earlier last request for which matters returns true. It returns
// the machine to enqueue, and false if there is none or if the host is already offered.
func (w *waitlist) offer(candidate host.Candidate, sequence uint64, matters func(host.Wanted) bool,
) (machine string, found bool) {
	name := candidate.Host.Name
	first := w.next(candidate, sequence, matters)
	if first == nil {
		return "", false
	}
	if made, offered := w.offers[name]; offered {
		w.offers[name] = offer{machine: made.machine, sequence: max(made.sequence, sequence)}
		return "", false
	}
	w.close(first)
	w.recordOffer(name, first.wanted.Machine, sequence)
	return first.wanted.Machine, true
}

// next returns the first open waiter that a host suits and that made its last request before a sequence number. It
// returns nil if there is none. It checks a host without a reservation once for each requirement, and a reserved host
// for each machine of its owner.
func (w *waitlist) next(candidate host.Candidate, before uint64, matters func(host.Wanted) bool) *waiter {
	var first *waiter
	suits := func(wanted host.Wanted) bool { return matters(wanted) && host.Suits(candidate, wanted) }
	// The machines of an owner may have different requirements.
	isReserved := reservation(candidate.Host) != ""
	for waiters := range w.concerned(candidate) {
		at := slices.IndexFunc(waiters, func(current *waiter) bool {
			return current.isOpen && current.last < before && (!isReserved || suits(current.wanted))
		})
		if at < 0 || first != nil && first.first < waiters[at].first {
			continue
		}
		if isReserved || suits(waiters[at].wanted) {
			first = waiters[at]
		}
	}
	return first
}

// concerned returns the lists of waiters that may claim a host.
func (w *waitlist) concerned(candidate host.Candidate) iter.Seq[[]*waiter] {
	switch owner := reservation(candidate.Host); {
	case owner != "":
		return maps.Values(w.owned[owner])
	case host.Claimable(candidate.Host) && !candidate.Assumed:
		return maps.Values(w.open)
	default:
		return func(func([]*waiter) bool) {}
	}
}

// recordOffer records the offer of a host to a machine. A host that is already offered stays with its machine.
func (w *waitlist) recordOffer(name, machine string, sequence uint64) {
	if made, offered := w.offers[name]; !offered {
		w.offeredTo[machine] = append(w.offeredTo[machine], name)
	} else {
		machine = made.machine
	}
	w.offers[name] = offer{machine: machine, sequence: sequence}
}

// recordUnclaimed records that a machine chose a host and did not claim it. The host does not change, so no event
// offers it again. It counts as offered to the machine, which passes it on when it settles.
func (w *waitlist) recordUnclaimed(name, machine string) {
	w.recordChange(true)
	w.recordOffer(name, machine, w.sequence)
}

// withdraw ends the offer of a host.
func (w *waitlist) withdraw(name string) {
	made, offered := w.offers[name]
	if !offered {
		return
	}
	delete(w.offers, name)
	names := slices.DeleteFunc(w.offeredTo[made.machine], func(other string) bool { return other == name })
	if w.offeredTo[made.machine] = names; len(names) == 0 {
		delete(w.offeredTo, made.machine)
	}
}

// settle ends the offers of a machine and returns them, oldest first. It removes a machine that stops waiting.
func (w *waitlist) settle(machine string, waits bool) []declinedOffer {
	if current := w.waiters[machine]; current != nil && !waits {
		w.close(current)
		w.disown(current)
		delete(w.waiters, machine)
	}
	var declined []declinedOffer
	for _, name := range slices.Clone(w.offeredTo[machine]) {
		declined = append(declined, declinedOffer{host: name, sequence: w.offers[name].sequence})
		w.withdraw(name)
	}
	slices.SortFunc(declined, func(a, b declinedOffer) int { return cmp.Compare(a.sequence, b.sequence) })
	return declined
}

// unreserve closes and returns the open waiters that a host was reserved for before its change, in the order of their
// first request. A nil current host means that the host was deleted.
func (w *waitlist) unreserve(previous, current *bmov1alpha1.BareMetalHost) []string {
	var ended []*waiter
	for _, waiters := range w.owned[reservation(previous)] {
		wanted := waiters[0].wanted
		if !host.ReservedFor(previous, wanted) || current != nil && host.ReservedFor(current, wanted) {
			continue
		}
		for _, each := range waiters {
			if each.isOpen {
				ended = append(ended, each)
			}
		}
	}
	slices.SortFunc(ended, func(a, b *waiter) int { return cmp.Compare(a.first, b.first) })
	machines := make([]string, 0, len(ended))
	for _, current := range ended {
		w.close(current)
		machines = append(machines, current.wanted.Machine)
	}
	return machines
}

// recordChange records a change of a host or of an assumption. Gained is true if a machine that found no host may find
// one now.
func (w *waitlist) recordChange(gained bool) {
	w.sequence++
	if w.changed = w.sequence; gained {
		w.gained = w.sequence
	}
}

// isSearched returns true if a search for a host would find none, as the last one.
func (w *waitlist) isSearched(wanted request, now time.Time) bool {
	last, known := w.shortages[wanted]
	return known && last.searched >= w.gained && (last.retry.IsZero() || now.Before(last.retry))
}

// count returns the choice of a machine that finds no host after a search, and false if the hosts must be counted.
func (w *waitlist) count(wanted request, now time.Time) (host.Choice, bool) {
	last, known := w.shortages[wanted]
	if !known || last.counted < w.changed && !now.Before(last.fresh) || !last.retry.IsZero() && !now.Before(last.retry) {
		return host.Choice{}, false
	}
	last.searched = w.sequence
	w.shortages[wanted] = last
	choice := host.Choice{Message: last.message, Refused: !last.retry.IsZero()}
	if choice.Refused {
		choice.RetryAfter = last.retry.Sub(now)
	}
	return choice, true
}

// recordCount stores the count of a number of hosts, which began at a sequence number.
func (w *waitlist) recordCount(wanted request, began uint64, counted host.Choice, hosts int, now time.Time) {
	found := shortage{searched: began, counted: began, fresh: now, message: counted.Message}
	if hosts > countedAtOnce {
		found.fresh = now.Add(time.Duration(hosts) * time.Millisecond)
	}
	if counted.Refused {
		found.retry = now.Add(counted.RetryAfter)
	}
	// The requests of machines that no longer wait are never counted again.
	maps.DeleteFunc(w.shortages, func(_ request, last shortage) bool {
		return last.searched < w.gained && !now.Before(last.fresh)
	})
	w.shortages[wanted] = found
}

func (w *waitlist) isEmpty() bool { return len(w.waiters) == 0 && len(w.offers) == 0 }
