package departure_test

import (
	"context"
	"errors"
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

// running is a Metal3Cluster whose Cluster runs.
func running(name string, epoch pivot.Epoch) *infrav1.Metal3Cluster {
	return build.Metal3Cluster(name, build.Annotations(map[string]string{infrav1.MoveEpochAnnotation: epoch.String()}))
}

func TestMemory(t *testing.T) {
	server := fake.NewClientBuilder().Build()
	memory := departure.New(server)
	for step, tc := range []struct {
		what func() error
		want pivot.Departure
	}{
		{func() error { return memory.Forget(t.Context(), running("a", 2)) }, pivot.Departure{}},
		{func() error { return memory.Remember(t.Context(), namespace, leaves("a", 1, "host-0")) }, leaves("a", 1, "host-0")},
		{func() error { return memory.Remember(t.Context(), "other", leaves("c", 7)) }, leaves("a", 1, "host-0")},
		{
			func() error { return memory.Remember(t.Context(), namespace, leaves("b", 1, "host-0", "host-1")) },
			pivot.Departure{
				Infras: map[string]pivot.Epoch{"a": 1, "b": 1}, Hosts: leaves("", 0, "host-0", "host-1").Hosts,
			},
		},
		{
			func() error { return memory.Forget(t.Context(), running("d", 2)) },
			pivot.Departure{
				Infras: map[string]pivot.Epoch{"a": 1, "b": 1}, Hosts: leaves("", 0, "host-0", "host-1").Hosts,
			},
		},
		{func() error { return memory.Forget(t.Context(), running("b", 2)) }, pivot.Departure{}},
	} {
		if err := tc.what(); err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		got, err := departure.Of(t.Context(), server, namespace)
		if err != nil {
			t.Fatalf("step %d: %v", step, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("step %d: -want +got:\n%s", step, diff)
		}
	}
}

func TestMemoryOfAServerThatFails(t *testing.T) {
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
		"forgetting":  memory.Forget(t.Context(), running("a", 2)),
		"deleting":    departure.New(readOnly).Forget(t.Context(), running("a", 2)),
	} {
		if !errors.Is(err, broken) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestUnreadableMemory(t *testing.T) {
	written := &corev1.ConfigMap{Data: map[string]string{"hosts": "{"}}
	written.Namespace, written.Name = namespace, pivot.DepartureName
	server := fake.NewClientBuilder().WithObjects(written).Build()
	if _, err := departure.Of(t.Context(), server, namespace); err == nil {
		t.Error("what cannot be read passes for nothing")
	}
}
