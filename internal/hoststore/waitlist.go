package hoststore

import (
	"cmp"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// waitlist holds the machines of one namespace that wait for a host, and which host was offered to which machine.
//
//	a host changes                    -> it is offered to the first machine whose answer the change can alter
//	the machine reconciles            -> it keeps its place until it settles as a machine that waits no more
//	the machine takes the host        -> the offer ends
//	the machine settles without it    -> the host is offered to the next machine that looked before the change
//	a reservation of a host ends      -> all machines that it was for are enqueued: another host may do for them now
//
// A machine that looked or declined has a later turn than the offer, so an offer reaches every machine at most once.
// The lock of the store guards all methods.
type waitlist struct {
	// turn counts what happens in the namespace: looks of machines, and changes of hosts.
	turn uint64

	// waiters holds each machine from its first look until it settles as one that waits no more.
	waiters map[string]*waiter

	// open holds the waiters that an offer may enqueue, in the order of their arrival. The waiters of one list differ only
	// in their names, so a host is checked once for all of them.
	open map[wish][]*waiter

	// offers holds the hosts that a machine has been enqueued for, by host, until the machine settles. OfferedTo is the
	// same by machine.
	offers    map[string]offer
	offeredTo map[string][]string
}

// waiter is one machine.
type waiter struct {
	wanted host.Wanted

	// arrived is the turn of its first look, looked that of its last look.
	arrived, looked uint64

	// isOpen says that an offer may enqueue it: it has looked and was not enqueued since.
	isOpen bool

	// chose says that it found a host at its last look.
	chose bool
}

// wish is what a machine requires of a host, without the name of the machine.
type wish struct {
	cluster, owner, named, selector, failureDomain string
	strict                                         bool
}

// offer is a host that a machine was enqueued for. Machines that looked before the turn may get it next.
type offer struct {
	machine string
	turn    uint64
}

// leftOffer is an offer that a machine did not take.
type leftOffer struct {
	host string
	turn uint64
}

func newWaitlist() *waitlist {
	return &waitlist{
		waiters: map[string]*waiter{}, open: map[wish][]*waiter{},
		offers: map[string]offer{}, offeredTo: map[string][]string{},
	}
}

func wishOf(wanted host.Wanted) wish {
	asked := wish{
		cluster: wanted.Cluster, owner: wanted.Owner, named: wanted.Named, failureDomain: wanted.FailureDomain,
		strict: wanted.Strict,
	}
	if wanted.Selector != nil {
		asked.selector = wanted.Selector.String()
	}
	return asked
}

// enter notes that a machine looks for a host now. A machine that waits keeps its place.
func (w *waitlist) enter(wanted host.Wanted) {
	w.turn++
	current := w.waiters[wanted.Machine]
	if current == nil {
		current = &waiter{arrived: w.turn}
		w.waiters[wanted.Machine] = current
	}
	w.shut(current)
	current.wanted, current.looked, current.isOpen, current.chose = wanted, w.turn, true, false
	asked := wishOf(wanted)
	at, _ := place(w.open[asked], current.arrived)
	w.open[asked] = slices.Insert(w.open[asked], at, current)
}

// place is the position of an arrival in a list of open waiters.
func place(waiters []*waiter, arrived uint64) (at int, found bool) {
	return slices.BinarySearchFunc(waiters, arrived, func(current *waiter, arrived uint64) int {
		return cmp.Compare(current.arrived, arrived)
	})
}

// shut keeps offers from a waiter. It keeps its place.
func (w *waitlist) shut(current *waiter) {
	if !current.isOpen {
		return
	}
	current.isOpen = false
	asked := wishOf(current.wanted)
	if at, found := place(w.open[asked], current.arrived); found {
		w.open[asked] = slices.Delete(w.open[asked], at, at+1)
	}
	if len(w.open[asked]) == 0 {
		delete(w.open, asked)
	}
}

// found notes that a machine has chosen a host.
func (w *waitlist) found(machine string) {
	if current := w.waiters[machine]; current != nil {
		w.shut(current)
		current.chose = true
	}
}

// ahead is how many machines with the owner of a machine wait before it.
func (w *waitlist) ahead(wanted host.Wanted) int {
	self, count := w.waiters[wanted.Machine], 0
	for _, other := range w.waiters {
		if self != nil && other.arrived < self.arrived && !other.chose && other.wanted.Owner == wanted.Owner &&
			other.wanted.Cluster == wanted.Cluster {
			count++
		}
	}
	return count
}

// offer offers a host to the machines that looked before a turn and that it is news for. It returns the machine to
// enqueue. While a machine has the offer, no other machine gets it. If the machine declines, the next one does.
func (w *waitlist) offer(candidate host.Candidate, turn uint64, isNews func(host.Wanted) bool,
) (machine string, found bool) {
	name := candidate.Host.Name
	first := w.next(candidate, turn, isNews)
	if first == nil {
		return "", false
	}
	if made, offered := w.offers[name]; offered {
		w.offers[name] = offer{machine: made.machine, turn: max(made.turn, turn)}
		return "", false
	}
	w.shut(first)
	w.make(name, first.wanted.Machine, turn)
	return first.wanted.Machine, true
}

// next returns the waiter that came first of those that looked before a turn and that a host concerns. Nil is none.
func (w *waitlist) next(candidate host.Candidate, before uint64, isNews func(host.Wanted) bool) *waiter {
	var first *waiter
	for _, waiters := range w.open {
		at := slices.IndexFunc(waiters, func(current *waiter) bool { return current.looked < before })
		if at < 0 || first != nil && first.arrived < waiters[at].arrived {
			continue
		}
		if wanted := waiters[at].wanted; isNews(wanted) && host.Concerns(candidate, wanted) {
			first = waiters[at]
		}
	}
	return first
}

// make notes that a host is offered to a machine.
func (w *waitlist) make(name, machine string, turn uint64) {
	if made, offered := w.offers[name]; !offered {
		w.offeredTo[machine] = append(w.offeredTo[machine], name)
	} else {
		machine = made.machine
	}
	w.offers[name] = offer{machine: machine, turn: turn}
}

// pass is for a host that a machine chose and did not claim. Nothing happens to the host then, so no event announces
// that it is free: the host counts as offered to the machine until that settles.
func (w *waitlist) pass(name, machine string) {
	w.turn++
	w.make(name, machine, w.turn)
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

// settle ends the turn of a machine and returns the offers that it did not take, oldest first. A machine that waits no
// more leaves the waitlist.
func (w *waitlist) settle(machine string, waits bool) []leftOffer {
	if current := w.waiters[machine]; current != nil && !waits {
		w.shut(current)
		delete(w.waiters, machine)
	}
	var left []leftOffer
	for _, name := range slices.Clone(w.offeredTo[machine]) {
		left = append(left, leftOffer{host: name, turn: w.offers[name].turn})
		w.withdraw(name)
	}
	slices.SortFunc(left, func(a, b leftOffer) int { return cmp.Compare(a.turn, b.turn) })
	return left
}

// unreserve returns the open waiters that a host was reserved for and is not any more, in the order of their arrival.
// It shuts them. A nil host is one that was deleted.
func (w *waitlist) unreserve(previous, current *bmov1alpha1.BareMetalHost) []string {
	var ended []*waiter
	for _, waiters := range w.open {
		wanted := waiters[0].wanted
		if host.ReservedFor(previous, wanted) && (current == nil || !host.ReservedFor(current, wanted)) {
			ended = append(ended, waiters...)
		}
	}
	slices.SortFunc(ended, func(a, b *waiter) int { return cmp.Compare(a.arrived, b.arrived) })
	machines := make([]string, 0, len(ended))
	for _, current := range ended {
		w.shut(current)
		machines = append(machines, current.wanted.Machine)
	}
	return machines
}

// isEmpty says whether the waitlist holds nothing.
func (w *waitlist) isEmpty() bool { return len(w.waiters) == 0 && len(w.offers) == 0 }
