package metal3remediation

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// collectTimeout limits the cached read of one scrape.
const collectTimeout = 5 * time.Second

var (
	tries = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "metal3_remediation_tries_total",
		Help: "Tries of Metal3Remediations. Each reboots a host.",
	})
	replacements = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "metal3_remediation_replacements_total",
		Help: "Machines that Metal3Remediations marked for replacement by their owner.",
	})
	remediationsDescription = prometheus.NewDesc("metal3_remediations",
		"Metal3Remediations by namespace, phase and reason of the condition Ready.",
		[]string{"namespace", "phase", "reason"}, nil)
)

// RegisterMetrics adds the metrics of the controller to the registry of the manager.
func RegisterMetrics(reader client.Reader) error {
	for _, collector := range []prometheus.Collector{tries, replacements, remediationCollector{reader}} {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// remediationCollector counts the cached remediations at each scrape.
type remediationCollector struct{ reader client.Reader }

// Describe implements prometheus.Collector.
func (c remediationCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- remediationsDescription
}

// Collect implements prometheus.Collector. It sends no samples if the cached read fails.
func (c remediationCollector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	var list infrav1.Metal3RemediationList
	if err := c.reader.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	type group struct{ namespace, phase, reason string }
	counts := map[group]int{}
	for i := range list.Items {
		request := &list.Items[i]
		reason := conditions.GetReason(request, infrav1.ReadyCondition)
		counts[group{request.Namespace, string(request.Status.Phase), reason}]++
	}
	for labels, count := range counts {
		samples <- prometheus.MustNewConstMetric(remediationsDescription, prometheus.GaugeValue, float64(count),
			labels.namespace, labels.phase, labels.reason)
	}
}
