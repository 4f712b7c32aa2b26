package metal3data

import (
	"context"
	"time"

	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
)

// collectTimeout limits the cached reads of one scrape.
const collectTimeout = 5 * time.Second

// States of a claim of an address.
const (
	addressAllocated = "allocated"
	addressFailed    = "failed"
	addressWaiting   = "waiting"
)

var (
	renderSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "metal3_data_render_seconds",
		Help:    "Seconds from the creation of a Metal3Data to its Secrets.",
		Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
	})
	dataDescription = prometheus.NewDesc("metal3_data",
		"Metal3Data by namespace and reason of the condition Ready.", []string{"namespace", "reason"}, nil)
	claimsDescription = prometheus.NewDesc("metal3_data_claims",
		"Metal3DataClaims by namespace and reason of the condition Ready.", []string{"namespace", "reason"}, nil)
	addressesDescription = prometheus.NewDesc("metal3_data_addresses",
		"Claims of addresses of Metal3Data by namespace, pool and state.",
		[]string{"namespace", "kind", "pool", "state"}, nil)
)

// RegisterMetrics adds the metrics of the controller to the registry of the manager.
func (r *Reconciler) RegisterMetrics() error {
	for _, collector := range []prometheus.Collector{renderSeconds, dataCollector{r}} {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// dataCollector counts the cached objects at each scrape.
type dataCollector struct{ reconciler *Reconciler }

// Describe implements prometheus.Collector.
func (c dataCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- dataDescription
	descriptions <- claimsDescription
	descriptions <- addressesDescription
}

// Collect implements prometheus.Collector. It sends no samples of a kind if the cached read fails.
func (c dataCollector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), collectTimeout)
	defer cancel()
	c.count(ctx, samples, dataDescription, &infrav1.Metal3DataList{}, reasonOf)
	c.count(ctx, samples, claimsDescription, &infrav1.Metal3DataClaimList{}, reasonOf)
	for _, through := range apis() {
		// A list of an API without a watch would start one.
		if c.reconciler.isWatched(through) {
			_, list := through.objects()
			c.count(ctx, samples, addressesDescription, list, addressOf)
		}
	}
}

// count sends the number of objects for each combination of labels. The labels follow the namespace. Nil omits an
// object.
func (c dataCollector) count(ctx context.Context, samples chan<- prometheus.Metric, description *prometheus.Desc,
	list client.ObjectList, labelsOf func(client.Object) []string,
) {
	if err := c.reconciler.Client.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	type group [4]string
	counts, lengths := map[group]int{}, map[group]int{}
	err := meta.EachListItem(list, func(item runtime.Object) error {
		object, isObject := item.(client.Object)
		if !isObject {
			return nil
		}
		if labels := labelsOf(object); labels != nil {
			var key group
			length := copy(key[:], append([]string{object.GetNamespace()}, labels...))
			counts[key], lengths[key] = counts[key]+1, length
		}
		return nil
	})
	if err != nil {
		return
	}
	for key, number := range counts {
		samples <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, float64(number), key[:lengths[key]]...)
	}
}

// reasonOf returns the reason of the condition Ready. Empty before the first reconcile.
func reasonOf(object client.Object) []string {
	getter, hasConditions := object.(conditions.Getter)
	if !hasConditions {
		return nil
	}
	return []string{conditions.GetReason(getter, infrav1.ReadyCondition)}
}

// addressOf returns kind and name of the pool of a claim of a Metal3Data, and the state of the claim.
func addressOf(object client.Object) []string {
	if len(byOwner(object)) == 0 {
		return nil
	}
	switch claim := object.(type) {
	case *metal3ipamv1.IPClaim:
		failed := ptr.Deref(claim.Status.ErrorMessage, "") != ""
		return []string{hostdata.Metal3PoolKind, claim.Spec.Pool.Name, state(claim.Status.Address != nil, failed)}
	case *ipamv1.IPAddressClaim:
		failed := meta.IsStatusConditionPresentAndEqual(claim.Status.Conditions, ipamv1.IPAddressClaimReadyCondition,
			metav1.ConditionFalse)
		pool := claim.Spec.PoolRef
		return []string{pool.Kind, pool.Name, state(claim.Status.AddressRef.Name != "", failed)}
	default:
		return nil
	}
}

func state(allocated, failed bool) string {
	switch {
	case allocated:
		return addressAllocated
	case failed:
		return addressFailed
	default:
		return addressWaiting
	}
}
