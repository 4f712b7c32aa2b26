package metrics_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/metrics"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestAFailedReadOmitsItsGauge lets the list of hosts fail, which one of two gauges reads after its Clusters.
func TestAFailedReadOmitsItsGauge(t *testing.T) {
	reader := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(
		build.Cluster("a"), build.Cluster("b"), build.Cluster("hidden"), build.Host("a")).Build()
	clusters, hosts := metrics.Of[clusterv1.ClusterList](), metrics.Of[bmov1alpha1.BareMetalHostList]()
	values := func(object client.Object) []string {
		if object.GetName() == "hidden" {
			return nil
		}
		return []string{object.GetName()}
	}
	gauges := []metrics.Gauge{
		{Name: "clusters", Help: "Clusters.", Labels: []string{"name"}, Lists: clusters, Values: values},
		{Name: "all", Help: "All.", Labels: []string{"name"}, Values: values, Lists: func() []client.ObjectList {
			return append(clusters(), hosts()...)
		}},
	}
	const alone = `
# HELP clusters Clusters.
# TYPE clusters gauge
clusters{name="a",namespace="metal3"} 1
clusters{name="b",namespace="metal3"} 1
`
	const both = alone + `
# HELP all All.
# TYPE all gauge
all{name="a",namespace="metal3"} 2
all{name="b",namespace="metal3"} 1
`
	if err := testutil.CollectAndCompare(metrics.Collector(reader, gauges...), strings.NewReader(both)); err != nil {
		t.Error(err)
	}
	broken := interceptor.NewClient(reader, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, is := list.(*bmov1alpha1.BareMetalHostList); is {
				return errors.New("the cache stops")
			}
			return c.List(ctx, list, options...)
		},
	})
	if err := testutil.CollectAndCompare(metrics.Collector(broken, gauges...), strings.NewReader(alone)); err != nil {
		t.Error(err)
	}
}

// TestAnyValue has values that BMO, Ironic or a user may choose.
func TestAnyValue(t *testing.T) {
	reader := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(build.Cluster("a"), build.Cluster("b")).Build()
	for reason, tc := range map[string]struct {
		value string
		want  int
	}{"NUL": {"a\x00b", 1}, "quotes and line breaks": {"\"\n", 1}, "not UTF-8": {"\xff", 0}} {
		got := testutil.CollectAndCount(metrics.Collector(reader, metrics.Gauge{
			Name: "clusters", Help: "Clusters.", Labels: []string{"value"}, Lists: metrics.Of[clusterv1.ClusterList](),
			Values: func(client.Object) []string { return []string{tc.value} },
		}))
		if got != tc.want {
			t.Errorf("%s: got %d samples, want %d", reason, got, tc.want)
		}
	}
}

func TestRegister(t *testing.T) {
	counter := prometheus.NewCounter(prometheus.CounterOpts{Name: "metal3_test_total", Help: "Nothing."})
	if err := metrics.Register(counter); err != nil {
		t.Fatal(err)
	}
	if err := metrics.Register(counter); err == nil {
		t.Error("a second registration succeeded")
	}
}
