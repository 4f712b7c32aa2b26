package plugin

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// The namespaces of the API server of these tests, and the hosts in each.
const namespaces, hosts = 20, 3

// manyNamespaces is an API server with a Cluster and some hosts in each namespace. It counts lists, and the objects in
// them.
func manyNamespaces(t *testing.T) (from *cluster, requests, objects *int) {
	t.Helper()
	requests, objects = new(int), new(int)
	count := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			err := c.List(ctx, list, options...)
			content, _ := json.Marshal(list)
			var read struct {
				Items []any `json:"items"`
			}
			_ = json.Unmarshal(content, &read)
			*requests, *objects = *requests+1, *objects+len(read.Items)
			return err
		},
	}
	stored := fake.NewClientBuilder().WithScheme(scheme()).WithInterceptorFuncs(count).
		WithStatusSubresource(&infrav1.Metal3Cluster{}).Build()
	for i := range namespaces {
		namespace := build.InNamespace(fmt.Sprintf("site-%02d", i))
		cluster := build.Cluster("c", namespace)
		all := []client.Object{cluster, build.Metal3Cluster("c", namespace, build.OwnedBy(cluster))}
		for j := range hosts {
			all = append(all, build.Host(fmt.Sprintf("host-%d", j), namespace, build.Available()))
		}
		for _, object := range all {
			if err := stored.Create(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
	return &cluster{client: stored, side: sourceSide, flag: "--kubeconfig"}, requests, objects
}

// TestReadsOfManyNamespaces expects that the number of requests of the first and the next status of all namespaces does
// not depend on the number of namespaces.
func TestReadsOfManyNamespaces(t *testing.T) {
	from, requests, objects := manyNamespaces(t)
	c := &statusCommand{all: true}
	for _, again := range []bool{false, true} {
		*requests, *objects = 0, 0
		seen, err := c.side(t.Context(), from)
		if err != nil || len(seen.Clusters) != namespaces || len(seen.Hosts) != namespaces*hosts || len(seen.Free) != namespaces {
			t.Fatalf("again %v: got %+v, %v", again, seen, err)
		}
		if want := namespaces * (hosts + 2); *requests != 3 || *objects != want {
			t.Errorf("again %v: %d requests with %d objects, want 3 with %d", again, *requests, *objects, want)
		}
	}
}

func TestOneOfManyNamespaces(t *testing.T) {
	from, _, _ := manyNamespaces(t)
	one := &statusCommand{where: sides{namespace: "site-07"}}
	seen, err := one.side(t.Context(), from)
	if err != nil || len(seen.Clusters) != 1 || len(seen.Hosts) != hosts || seen.Clusters[0].Namespace != "site-07" {
		t.Errorf("one namespace: got %+v, %v", seen, err)
	}
	whole, err := from.look(t.Context(), "")
	if err != nil || len(whole.hosts) != namespaces*hosts || len(whole.clusters) != namespaces || len(whole.infras) != namespaces {
		t.Errorf("all namespaces in one: %+v, %v", whole, err)
	}
}
