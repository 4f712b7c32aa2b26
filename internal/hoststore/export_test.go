package hoststore

import (
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
)

// Indexes returns the index functions of the store by name.
func Indexes() map[string]client.IndexerFunc {
	return map[string]client.IndexerFunc{consumerIndex: byConsumer}
}

// HandleDelete passes a deletion to the store in place of its informer.
func (s *Store) HandleDelete(object any) { s.handleDelete(object) }

// HostCollector is the collector of the metric metal3_hosts.
func HostCollector(reader client.Reader) prometheus.Collector {
	return metrics.Collector(reader, hostsGauge())
}

// Counters are the metrics that the store counts by itself.
func Counters() (claimed, conflicting prometheus.Counter, seconds prometheus.Histogram) {
	return claims, conflicts, associateSeconds
}

// Memory counts the entries in the memory of a store.
type Memory struct{ Assumed, Stored, Outdated, Refused, Paused, Waiters, Offers int }

// SetClock replaces the clock of the store.
func (s *Store) SetClock(clock clock.WithDelayedExecution) { s.assumed.clock = clock }

// Memory counts the entries in the memory of the store.
func (s *Store) Memory() Memory {
	s.mu.Lock()
	defer s.mu.Unlock()
	memory := Memory{Paused: len(s.assumed.pauses)}
	for _, known := range s.assumed.hosts {
		for count, is := range map[*int]bool{
			&memory.Assumed: known.isAssumed(), &memory.Stored: known.written != nil,
			&memory.Outdated: known.outdated != "", &memory.Refused: len(known.refusals) > 0,
		} {
			if is {
				*count++
			}
		}
	}
	for _, list := range s.waitlists {
		memory.Waiters += len(list.waiters)
		memory.Offers += len(list.offers)
	}
	return memory
}

// Shortages counts the remembered searches that found no host.
func (s *Store) Shortages() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := 0
	for _, list := range s.waitlists {
		count += len(list.shortages)
	}
	return count
}
