package hoststore

import (
	"cmp"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
)

var (
	claims = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "metal3_host_claims_total",
		Help: "BareMetalHosts that Metal3Machines claimed.",
	})
	conflicts = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "metal3_host_write_conflicts_total",
		Help: "Writes of BareMetalHosts that conflicted with another write.",
	})
	associateSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "metal3_machine_associate_seconds",
		Help:    "Seconds from the creation of a Metal3Machine to the claim of its host.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
	})
)

// Claimed counts a claim. Waited is the time since the Metal3Machine was created.
func Claimed(waited time.Duration) {
	claims.Inc()
	associateSeconds.Observe(waited.Seconds())
}

// RegisterMetrics adds the metrics of the store to the registry of the manager.
func (s *Store) RegisterMetrics() error {
	return metrics.Register(claims, conflicts, associateSeconds, metrics.Collector(s.client, hostsGauge()))
}

// hostsGauge counts the cached hosts.
func hostsGauge() metrics.Gauge {
	return metrics.Gauge{
		Name: "metal3_hosts",
		Help: "BareMetalHosts by namespace, provisioning state, and why a machine without a hostSelector cannot claim " +
			"them; free if it can.",
		Labels: []string{"state", "reason"},
		Lists:  metrics.Of[bmov1alpha1.BareMetalHostList](),
		Values: func(object client.Object) []string {
			current, isHost := object.(*bmov1alpha1.BareMetalHost)
			if !isHost {
				return nil
			}
			reason := string(host.Check(host.Candidate{Host: current}, host.Wanted{Namespace: current.Namespace}))
			return []string{string(current.Status.Provisioning.State), cmp.Or(reason, "free")}
		},
	}
}
