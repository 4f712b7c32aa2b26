package hoststore

import (
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// countedAtOnce is the number of hosts up to which each reconcile of a waiting machine counts them. A count of more
// hosts lasts for a millisecond per host, so that counting takes at most a thousandth of a processor per request.
const countedAtOnce = 100

// namespacedRequest is a request in one namespace. Refused is the name of a machine that some hosts refuse, because it
// does not share what it finds with other machines.
type namespacedRequest struct {
	namespace string
	request   request
	refused   string
}

// shortage is what the store knows about a request that found no host. All machines with this request share it.
type shortage struct {
	// gained is the number of the last gain of the namespace before the search. Machines search again after another gain.
	gained uint64

	// changes is the number of changes before the hosts were counted, fresh the time until which the count lasts after
	// another change.
	changes uint64
	fresh   time.Time

	// message is the count. retry is the time when a refused host passes again. Zero means that none is refused.
	message string
	retry   time.Time
}

// shortages holds the shortage of each request. The lock of the store guards all methods.
type shortages struct {
	known map[namespacedRequest]shortage

	// changes counts the changes of hosts and assumptions.
	changes uint64
}

func newShortages() shortages { return shortages{known: map[namespacedRequest]shortage{}} }

// isSearched returns true if a search for a host would find none, as the last one.
func (s *shortages) isSearched(key namespacedRequest, gained uint64, now time.Time) bool {
	last, known := s.known[key]
	return known && last.gained == gained && (last.retry.IsZero() || now.Before(last.retry))
}

// count returns the choice of a machine that finds no host after a search, and false if the hosts must be counted.
func (s *shortages) count(key namespacedRequest, gained uint64, now time.Time) (host.Choice, bool) {
	last, known := s.known[key]
	if !known || last.changes != s.changes && !now.Before(last.fresh) || !last.retry.IsZero() && !now.Before(last.retry) {
		return host.Choice{}, false
	}
	last.gained = gained
	s.known[key] = last
	choice := host.Choice{Message: last.message, Refused: !last.retry.IsZero()}
	if choice.Refused {
		choice.RetryAfter = last.retry.Sub(now)
	}
	return choice, true
}

// store stores the count of a number of hosts, which was begun after a number of changes.
func (s *shortages) store(key namespacedRequest, counted shortage, hosts int, now time.Time) {
	counted.fresh = now
	if hosts > countedAtOnce {
		counted.fresh = now.Add(time.Duration(hosts) * time.Millisecond)
	}
	s.known[key] = counted
}

// drop drops the shortages of a namespace without waiting machines.
func (s *shortages) drop(namespace string) {
	for key := range s.known {
		if key.namespace == namespace {
			delete(s.known, key)
		}
	}
}
