package metal3remediation

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
)

var (
	tries = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "metal3_remediation_tries_total",
		Help: "Tries of Metal3Remediations. A try reboots its host if the host is provisioned.",
	})
	replacements = prometheus.NewCounter(prometheus.CounterOpts{
		Name: "metal3_remediation_replacements_total",
		Help: "Machines that Metal3Remediations marked for replacement by their owner.",
	})
)

// RegisterMetrics adds the metrics of the controller to the registry of the manager.
func RegisterMetrics(reader client.Reader) error {
	return metrics.Register(tries, replacements, metrics.Collector(reader, remediationsGauge()))
}

func remediationsGauge() metrics.Gauge {
	return metrics.Gauge{
		Name: "metal3_remediations", Help: "Metal3Remediations by namespace, phase and reason of the condition Ready.",
		Labels: []string{"phase", "reason"}, Lists: metrics.Of[infrav1.Metal3RemediationList](),
		Values: func(object client.Object) []string {
			request, isRemediation := object.(*infrav1.Metal3Remediation)
			if !isRemediation {
				return nil
			}
			return []string{string(request.Status.Phase), conditions.GetReason(request, infrav1.ReadyCondition)}
		},
	}
}
