package metal3cluster

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// collectTimeout bounds the read of the cache for one scrape.
const collectTimeout = 5 * time.Second

var (
	probeSeconds = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    "metal3_ironic_probe_seconds",
		Help:    "Duration of a probe of an Ironic endpoint in seconds, by the kind of the answer.",
		Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10},
	}, []string{"answer"})
	holderChanges = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "metal3_ironic_holder_changes_total",
		Help: "Number of changes of the holder of an Ironic endpoint, by the kind of the new holder.",
	}, []string{"to"})
	holderDescription = prometheus.NewDesc("metal3_ironic_holder",
		"1 for the holder of the Ironic endpoint of a Metal3Cluster.",
		[]string{"namespace", "metal3cluster", "kind", "name"}, nil)
)

// RegisterMetrics adds the metrics of the controller to the registry of the manager.
func RegisterMetrics(reader client.Reader) error {
	for _, collector := range []prometheus.Collector{probeSeconds, holderChanges, holderCollector{reader}} {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// holderCollector reads the holders from the cache at each scrape, so no event updates a gauge.
type holderCollector struct{ reader client.Reader }

// Describe implements prometheus.Collector.
func (c holderCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- holderDescription
}

// Collect implements prometheus.Collector. It collects nothing while the cache cannot be read.
func (c holderCollector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list infrav1.Metal3ClusterList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	for i := range list.Items {
		if holder := holderOf(&list.Items[i]); holder != nil {
			samples <- prometheus.MustNewConstMetric(holderDescription, prometheus.GaugeValue, 1,
				list.Items[i].Namespace, list.Items[i].Name, string(holder.Kind), holder.Name)
		}
	}
}
