package metal3cluster

import (
	"context"
	"testing"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestSharedEndpointIsReported(t *testing.T) {
	infra := build.Metal3Cluster("cluster")
	r, _ := reconciler(infra, interceptor.Funcs{}, kept{})
	stored := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(infra, build.Cluster("cluster"),
		build.Metal3Cluster("other", build.InNamespace("elsewhere"))).WithStatusSubresource(infra).
		WithIndex(&infrav1.Metal3Cluster{}, endpointIndex, byEndpoint).
		WithIndex(&clusterv1.Cluster{}, endpointIndex, byEndpoint).Build()
	r.Client = stored
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(infra)}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	after := build.Metal3Cluster("cluster")
	if err := stored.Get(context.Background(), request.NamespacedName, after); err != nil {
		t.Fatal(err)
	}
	got := conditions.Get(after, infrav1.InfrastructureReadyCondition)
	want := "Control-plane endpoint " + infra.Spec.ControlPlaneEndpoint.String() +
		" is also that of Metal3Cluster elsewhere/other. Correct spec.controlPlaneEndpoint of one of them, or of its Cluster."
	if got == nil || got.Status != "True" || got.Reason != infrav1.EndpointSharedReason || got.Message != want {
		t.Errorf("got %+v, want %q", got, want)
	}
}

func TestProbesEndWithTheMetal3Cluster(t *testing.T) {
	infra := build.Metal3Cluster("infra")
	withEndpoint(infra)
	r, stored := reconciler(infra, interceptor.Funcs{}, kept{})
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(infra)}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	if len(r.Nodes.targets) != 1 || len(r.Endpoints.targets) != 1 {
		t.Fatalf("got %d control planes and %d endpoints, want one", len(r.Nodes.targets), len(r.Endpoints.targets))
	}
	after := build.Metal3Cluster("infra")
	if err := stored.Get(context.Background(), request.NamespacedName, after); err != nil {
		t.Fatal(err)
	}
	after.Finalizers = nil
	if err := stored.Update(context.Background(), after); err != nil {
		t.Fatal(err)
	}
	if err := stored.Delete(context.Background(), after); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Reconcile(context.Background(), request); err != nil {
		t.Fatal(err)
	}
	if len(r.Nodes.targets) != 0 || len(r.Endpoints.targets) != 0 {
		t.Errorf("got %d control planes and %d endpoints of a Metal3Cluster that does not exist",
			len(r.Nodes.targets), len(r.Endpoints.targets))
	}
}
