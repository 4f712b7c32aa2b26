// Package metrics counts cached objects at each scrape, so that no event has to update a gauge.
package metrics

import (
	"context"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

// timeout limits the cached reads of one scrape.
const timeout = 5 * time.Second

// Gauge is the number of objects by their namespace and other labels.
type Gauge struct {
	// Name and Help describe the metric.
	Name, Help string

	// Labels are the names of the labels after the namespace.
	Labels []string

	// Lists returns empty lists of the objects to read.
	Lists func() []client.ObjectList

	// Values returns the values of Labels for an object. Nil omits the object.
	Values func(client.Object) []string
}

// Of returns Lists for one kind.
func Of[T any, List interface {
	*T
	client.ObjectList
}]() func() []client.ObjectList {
	return func() []client.ObjectList { return []client.ObjectList{List(new(T))} }
}

// Register adds metrics to the registry of the manager.
func Register(collectors ...prometheus.Collector) error {
	for _, collector := range collectors {
		if err := metrics.Registry.Register(collector); err != nil {
			return err
		}
	}
	return nil
}

// Collector returns the collector of gauges, which reads a cache. It sends no samples of a gauge if a read fails.
func Collector(reader client.Reader, gauges ...Gauge) prometheus.Collector {
	c := collector{reader: reader, gauges: gauges}
	for _, gauge := range gauges {
		labels := append([]string{"namespace"}, gauge.Labels...)
		c.descriptions = append(c.descriptions, prometheus.NewDesc(gauge.Name, gauge.Help, labels, nil))
	}
	return c
}

type collector struct {
	reader       client.Reader
	gauges       []Gauge
	descriptions []*prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c collector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range c.descriptions {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(samples chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for i, gauge := range c.gauges {
		counts, err := c.count(ctx, gauge)
		if err != nil {
			continue
		}
		for _, counted := range counts {
			sample, err := prometheus.NewConstMetric(c.descriptions[i], prometheus.GaugeValue, float64(counted.number),
				counted.labels...)
			if err == nil { // Prometheus accepts only UTF-8.
				samples <- sample
			}
		}
	}
}

// counted is the number of objects with the same values of labels.
type counted struct {
	labels []string
	number int
}

// count returns the number of objects for each combination of labels.
func (c collector) count(ctx context.Context, gauge Gauge) (map[string]counted, error) {
	counts := map[string]counted{}
	for _, list := range gauge.Lists() {
		if err := c.reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		err := meta.EachListItem(list, func(item runtime.Object) error {
			object, isObject := item.(client.Object)
			if !isObject {
				return nil
			}
			if values := gauge.Values(object); values != nil {
				labels := append([]string{object.GetNamespace()}, values...)
				key := fmt.Sprintf("%q", labels)
				counts[key] = counted{labels, counts[key].number + 1}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}
