package departure_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/departure"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const namespace = "metal3"

// leaves is the departure of one Metal3Cluster with the hosts of its namespace.
func leaves(infra string, epoch pivot.Epoch, hosts ...string) pivot.Departure {
	departing := pivot.Departure{Infras: map[string]pivot.Epoch{infra: epoch}}
	var all []*bmov1alpha1.BareMetalHost
	for _, name := range hosts {
		all = append(all, build.Host(name))
	}
	departing.Enter(all)
	return departing
}

// running is a Metal3Cluster with an unpaused Cluster.
func running(name string, epoch pivot.Epoch) *infrav1.Metal3Cluster {
	return build.Metal3Cluster(name, build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: epoch.String()}))
}

// with are hosts that left with some Metal3Clusters. Their names are separated by commas.
func with(infras string, hosts ...string) []pivot.DepartedHost {
	left := leaves("", 0, hosts...).Hosts
	for i := range left {
		left[i].Infras = strings.Split(infras, ",")
	}
	return left
}

func TestMemory(t *testing.T) {
	server := fake.NewClientBuilder().Build()
	memory := departure.New(server)
	remember := func(departing pivot.Departure) func() error {
		return func() error { return memory.Remember(t.Context(), namespace, departing) }
	}
	forget := func(name string, epoch pivot.Epoch) func() error {
		return func() error { return memory.Forget(t.Context(), running(name, epoch), nil) }
	}
	infras := func(names ...string) map[string]pivot.Epoch {
		epochs := map[string]pivot.Epoch{}
		for _, name := range names {
			epochs[name] = 1
		}
		return epochs
	}
	for _, step := range []struct {
		reason string
		do     func() error
		want   pivot.Departure
	}{
		{"the record is empty", forget("a", 2), pivot.Departure{}},
		{"the gate opens", remember(leaves("a", 1, "host-0")), pivot.Departure{Infras: infras("a"), Hosts: with("a", "host-0")}},
		{
			"a write fails after it", remember(leaves("a", 1, "host-0")),
			pivot.Departure{Infras: infras("a"), Hosts: with("a", "host-0")},
		},
		{
			"another namespace", func() error { return memory.Remember(t.Context(), "other", leaves("c", 7)) },
			pivot.Departure{Infras: infras("a"), Hosts: with("a", "host-0")},
		},
		{
			"another Metal3Cluster moves with it", remember(leaves("b", 1, "host-0", "host-1")),
			pivot.Departure{Infras: infras("a", "b"), Hosts: append(with("a,b", "host-0"), with("b", "host-1")...)},
		},
		{
			"a write of the other Metal3Cluster fails after it", remember(leaves("b", 1, "host-0", "host-1")),
			pivot.Departure{Infras: infras("a", "b"), Hosts: append(with("a,b", "host-0"), with("b", "host-1")...)},
		},
		{
			"a later Cluster has other hosts", remember(leaves("c", 1, "host-2")),
			pivot.Departure{
				Infras: infras("a", "b", "c"),
				Hosts:  append(append(with("a,b", "host-0"), with("b", "host-1")...), with("c", "host-2")...),
			},
		},
		{
			"an unrecorded Metal3Cluster is unpaused", forget("d", 2),
			pivot.Departure{
				Infras: infras("a", "b", "c"),
				Hosts:  append(append(with("a,b", "host-0"), with("b", "host-1")...), with("c", "host-2")...),
			},
		},
		{
			"its move is cancelled", forget("c", 2),
			pivot.Departure{Infras: infras("a", "b"), Hosts: append(with("a,b", "host-0"), with("b", "host-1")...)},
		},
		{"a recorded Metal3Cluster returns", forget("a", 2), pivot.Departure{Infras: infras("b"), Hosts: with("b", "host-0", "host-1")}},
		{
			"a host returns with an unrecorded Metal3Cluster",
			func() error {
				return memory.Forget(t.Context(), running("d", 2), []*bmov1alpha1.BareMetalHost{build.Host("host-0")})
			},
			pivot.Departure{Infras: infras("b"), Hosts: with("b", "host-1")},
		},
		{"the last Metal3Cluster returns", forget("b", 2), pivot.Departure{}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.reason, err)
		}
		got, err := departure.Of(t.Context(), server, namespace)
		if err != nil {
			t.Fatalf("%s: %v", step.reason, err)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", step.reason, diff)
		}
	}
}

// TestMemoryOfAnEarlierRelease adds to a ConfigMap without the Metal3Clusters of each host.
func TestMemoryOfAnEarlierRelease(t *testing.T) {
	written := &corev1.ConfigMap{Data: map[string]string{
		"hosts": `[{"name":"host-0"},{"name":"host-1","bmcAddress":"redfish://bmc.example/1"}]`, "metal3cluster.a": "5",
	}}
	written.Namespace, written.Name = namespace, pivot.DepartureName
	server := fake.NewClientBuilder().WithObjects(written).Build()
	memory := departure.New(server)
	legacy := []pivot.DepartedHost{{Name: "host-0"}, {Name: "host-1", Controller: "redfish://bmc.example/1"}}
	see := func(want pivot.Departure) {
		t.Helper()
		got, err := memory.Of(t.Context(), namespace)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%v, -want +got:\n%s", err, diff)
		}
	}
	see(pivot.Departure{Infras: map[string]pivot.Epoch{"a": 5}, Hosts: legacy})
	if err := memory.Remember(t.Context(), namespace, leaves("c", 5, "host-2")); err != nil {
		t.Fatal(err)
	}
	see(pivot.Departure{Infras: map[string]pivot.Epoch{"a": 5, "c": 5}, Hosts: append(legacy, with("c", "host-2")...)})
	if err := memory.Forget(t.Context(), running("c", 6), nil); err != nil {
		t.Fatal(err)
	}
	see(pivot.Departure{Infras: map[string]pivot.Epoch{"a": 5}, Hosts: legacy})
	if err := memory.Forget(t.Context(), running("a", 6), nil); err != nil {
		t.Fatal(err)
	}
	see(pivot.Departure{})
}

// TestMemoryOfTwoGates opens another gate of the namespace between the read and the write.
func TestMemoryOfTwoGates(t *testing.T) {
	for name, steps := range map[string]struct{ first, slow func(departure.Memory) error }{
		"Created": {nil, func(m departure.Memory) error { return m.Remember(t.Context(), namespace, leaves("b", 1)) }},
		"Changed": {
			func(m departure.Memory) error { return m.Remember(t.Context(), namespace, leaves("c", 1)) },
			func(m departure.Memory) error { return m.Remember(t.Context(), namespace, leaves("b", 1)) },
		},
		"Removed": {
			func(m departure.Memory) error { return m.Remember(t.Context(), namespace, leaves("c", 1)) },
			func(m departure.Memory) error { return m.Forget(t.Context(), running("c", 2), nil) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := fake.NewClientBuilder().Build()
			if steps.first != nil {
				if err := steps.first(departure.New(server)); err != nil {
					t.Fatal(err)
				}
			}
			raced := interceptor.NewClient(server, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object,
					options ...client.GetOption,
				) error {
					err := c.Get(ctx, key, object, options...)
					return errors.Join(err, departure.New(server).Remember(ctx, namespace, leaves("a", 1, "host-0")))
				},
			})
			if err := steps.slow(departure.New(raced)); err == nil {
				t.Error("the slow write overwrites the fast one")
			}
			got, err := departure.Of(t.Context(), server, namespace)
			if err != nil || len(got.Hosts) != 1 || got.Infras["a"] != 1 {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

func TestMemoryReturnsErrors(t *testing.T) {
	broken := errors.New("etcdserver: request timed out")
	readable := fake.NewClientBuilder().Build()
	if err := departure.New(readable).Remember(t.Context(), namespace, leaves("a", 1)); err != nil {
		t.Fatal(err)
	}
	readOnly := interceptor.NewClient(readable, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return broken },
	})
	server := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return broken
		},
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return broken },
	}).Build()
	memory := departure.New(server)
	_, err := departure.Of(t.Context(), server, namespace)
	for what, err := range map[string]error{
		"reading":     err,
		"remembering": memory.Remember(t.Context(), namespace, leaves("a", 1)),
		"forgetting":  memory.Forget(t.Context(), running("a", 2), nil),
		"deleting":    departure.New(readOnly).Forget(t.Context(), running("a", 2), nil),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestInvalidConfigMap(t *testing.T) {
	written := &corev1.ConfigMap{Data: map[string]string{"hosts": "{"}}
	written.Namespace, written.Name = namespace, pivot.DepartureName
	server := fake.NewClientBuilder().WithObjects(written).Build()
	if _, err := departure.Of(t.Context(), server, namespace); err == nil {
		t.Error("an invalid ConfigMap is read without an error")
	}
}
