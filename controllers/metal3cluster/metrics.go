package metal3cluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
)

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
	certificateEnd = prometheus.NewDesc("metal3_ironic_certificate_expiration_timestamp_seconds",
		"Unix time at which the certificate of an Ironic endpoint ends.", []string{"namespace", "metal3cluster"}, nil)
)

// RegisterMetrics adds the metrics of the controller to the registry of the manager. An empty namespace means all.
func RegisterMetrics(reader client.Reader, namespace string, endpoints *EndpointProber) error {
	return metrics.Register(probeSeconds, holderChanges, metrics.Collector(reader, holderGauge(namespace)), endpoints)
}

// Describe implements prometheus.Collector.
func (*EndpointProber) Describe(descriptions chan<- *prometheus.Desc) { descriptions <- certificateEnd }

// Collect implements prometheus.Collector. It sends the end of the certificate of each endpoint that answered the last
// probe.
func (p *EndpointProber) Collect(samples chan<- prometheus.Metric) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	for cluster, current := range p.targets {
		if current.result != nil && !current.result.Certificate.NotAfter.IsZero() {
			samples <- prometheus.MustNewConstMetric(certificateEnd, prometheus.GaugeValue,
				float64(current.result.Certificate.NotAfter.Unix()), cluster.Namespace, cluster.Name)
		}
	}
}

// holderGauge is 1 for each cached holder of a namespace.
func holderGauge(namespace string) metrics.Gauge {
	return metrics.Gauge{
		Name: "metal3_ironic_holder", Help: "1 for the holder of the Ironic endpoint of a Metal3Cluster.",
		Labels: []string{"metal3cluster", "kind", "name"}, Lists: metrics.Of[infrav1.Metal3ClusterList](),
		Values: func(object client.Object) []string {
			infra, isInfra := object.(*infrav1.Metal3Cluster)
			if !isInfra || holderOf(infra) == nil || namespace != "" && infra.Namespace != namespace {
				return nil
			}
			holder := holderOf(infra)
			return []string{infra.Name, string(holder.Kind), holder.Name}
		},
	}
}
