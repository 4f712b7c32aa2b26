package metal3data

import (
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
)

// States of a claim of an address.
const (
	addressAllocated = "allocated"
	addressFailed    = "failed"
	addressWaiting   = "waiting"
)

var renderSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
	Name:    "metal3_data_render_seconds",
	Help:    "Seconds from the creation of a Metal3Data to its first Secrets.",
	Buckets: []float64{0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800, 7200},
})

// RegisterMetrics adds the metrics of the controller to the registry of the manager.
func (r *Reconciler) RegisterMetrics() error { return metrics.Register(renderSeconds, r.collector()) }

// collector counts cached data, their claims, and their claims of addresses.
func (r *Reconciler) collector() prometheus.Collector {
	return metrics.Collector(r.Client, metrics.Gauge{
		Name: "metal3_data", Help: "Metal3Data by namespace and reason of the condition Ready.",
		Labels: []string{"reason"}, Lists: metrics.Of[infrav1.Metal3DataList](), Values: reasonOf,
	}, metrics.Gauge{
		Name: "metal3_data_claims", Help: "Metal3DataClaims by namespace and reason of the condition Ready.",
		Labels: []string{"reason"}, Lists: metrics.Of[infrav1.Metal3DataClaimList](), Values: reasonOf,
	}, metrics.Gauge{
		Name: "metal3_data_addresses", Help: "Claims of addresses of Metal3Data by namespace, pool and state.",
		Labels: []string{"kind", "pool", "state"}, Lists: r.addressLists, Values: addressOf,
	})
}

// addressLists returns lists of the claims of addresses that the cache holds.
func (r *Reconciler) addressLists() []client.ObjectList {
	var lists []client.ObjectList
	for _, through := range apis() {
		if r.isListed(through) {
			_, list := through.objects()
			lists = append(lists, list)
		}
	}
	return lists
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
