package hoststore

import (
	"context"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// collectTimeout limits the cached read of one scrape.
const collectTimeout = 5 * time.Second

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
	hostsDescription = prometheus.NewDesc("metal3_hosts",
		"BareMetalHosts by namespace, provisioning state, and why a machine without a hostSelector cannot claim them; "+
			"free if it can.",
		[]string{"namespace", "state", "reason"}, nil)
)

// Claimed counts a claim. Waited is the time since the Metal3Machine was created.
func Claimed(waited time.Duration) {
	claims.Inc()
	associateSeconds.Observe(waited.Seconds())
}

// RegisterMetrics adds the metrics of the store to the registry of the manager.
func (s *Store) RegisterMetrics() error {
	for _, collector := range []prometheus.Collector{claims, conflicts, associateSeconds, hostCollector{s.client}} {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// hostCollector counts the cached hosts at each scrape.
type hostCollector struct{ reader client.Reader }

// Describe implements prometheus.Collector.
func (c hostCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- hostsDescription
}

// Collect implements prometheus.Collector. It sends no samples if the cached read fails.
func (c hostCollector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list bmov1alpha1.BareMetalHostList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	type group struct{ namespace, state, reason string }
	counts := map[group]int{}
	for i := range list.Items {
		current := &list.Items[i]
		reason := string(host.Check(host.Candidate{Host: current}, host.Wanted{Namespace: current.Namespace}))
		if reason == "" {
			reason = "free"
		}
		counts[group{current.Namespace, string(current.Status.Provisioning.State), reason}]++
	}
	for labels, count := range counts {
		samples <- prometheus.MustNewConstMetric(hostsDescription, prometheus.GaugeValue, float64(count),
			labels.namespace, labels.state, labels.reason)
	}
}
