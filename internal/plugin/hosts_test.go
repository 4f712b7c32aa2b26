package plugin

import (
	"context"
	"fmt"
	"testing"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

// TestReadsOfManyHosts counts the requests of a watched status.
func TestReadsOfManyHosts(t *testing.T) {
	pages, singles := 0, 0
	count := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, whole := list.(*bmov1alpha1.BareMetalHostList); whole {
				pages++
			}
			return c.List(ctx, list, options...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			singles++
			return c.Get(ctx, key, object, options...)
		},
	}
	stored := fake.NewClientBuilder().WithScheme(scheme()).WithInterceptorFuncs(count).Build()
	var hosts []*bmov1alpha1.BareMetalHost
	for i := range 2 * fewChanged {
		host := build.Host(fmt.Sprintf("host-%d", i), build.Available())
		host.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{Hostname: "h"}
		if err := stored.Create(t.Context(), host); err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, host)
	}
	c := &cluster{client: stored}
	look := func(change, wantPages, wantSingles int) {
		t.Helper()
		for _, host := range hosts[:change] {
			host.Spec.Online = !host.Spec.Online
			if err := stored.Update(t.Context(), host); err != nil {
				t.Fatal(err)
			}
		}
		pages, singles = 0, 0
		seen, err := c.readHosts(t.Context(), build.DefaultNamespace)
		if err != nil || len(seen) != len(hosts) {
			t.Fatalf("got %d hosts, %v", len(seen), err)
		}
		if pages != wantPages || singles != wantSingles {
			t.Errorf("got %d pages and %d hosts, want %d and %d", pages, singles, wantPages, wantSingles)
		}
		expectCurrent(t, seen, hosts)
	}
	look(0, 1, 0)
	look(0, 0, 0)
	look(2, 0, 2)
	look(fewChanged+1, 1, 0)
	if err := stored.Delete(t.Context(), hosts[0]); err != nil {
		t.Fatal(err)
	}
	hosts = hosts[1:]
	look(0, 0, 0)
}

// expectCurrent requires the current hosts, without their hardware details.
func expectCurrent(t *testing.T, seen, hosts []*bmov1alpha1.BareMetalHost) {
	t.Helper()
	online := map[string]bool{}
	for _, host := range hosts {
		online[host.Name] = host.Spec.Online
	}
	for _, host := range seen {
		if host.Spec.Online != online[host.Name] || host.Status.HardwareDetails != nil {
			t.Errorf("host %s is not as it is now, or has its hardware details", host.Name)
		}
	}
}
