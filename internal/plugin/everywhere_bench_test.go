package plugin

import (
	"fmt"
	"io"
	"testing"

	"golang.org/x/sync/errgroup"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// viewer is the user of the plugin in the benchmark.
const viewer = "viewer"

// BenchmarkStatusOfManyNamespaces prints the status of 20 namespaces with 50 hosts each, before the first of them
// moves: once alone, and once as status --watch repeats it. It fails if the number of requests depends on the number of
// namespaces.
func BenchmarkStatusOfManyNamespaces(b *testing.B) {
	source, target := benchServer(b), benchServer(b)
	fillNamespaces(b, source.Client)
	started := func() *statusCommand {
		c := &statusCommand{all: true}
		c.where.kubeconfig, c.where.toKubeconfig = viewerKubeconfig(b, source), viewerKubeconfig(b, target)
		var err error
		if c.source, c.target, err = c.where.open(); err != nil {
			b.Fatal(err)
		}
		return c
	}
	look := func(b *testing.B, c *statusCommand) {
		b.Helper()
		seen, err := c.look(b.Context())
		if err != nil || len(seen.Namespaces) != namespaces || len(seen.Source.Hosts) != namespaces*benchHosts {
			b.Fatalf("got %d namespaces with %d hosts, %v", len(seen.Namespaces), len(seen.Source.Hosts), err)
		}
		if err := seen.write(io.Discard, false, false); err != nil {
			b.Fatal(err)
		}
	}
	// The API server refuses the first list of a kind while it fills its watch cache, and the client repeats the request.
	look(b, started())
	// The plugin lists hosts, Clusters and Metal3Clusters of each side.
	const kinds, pages = 2 * 3, namespaces * benchHosts / hostPage
	b.Run("First", func(b *testing.B) {
		before := requestsOf(b, source, target)
		for b.Loop() {
			look(b, started())
		}
		demandRequests(b, requestsOf(b, source, target)-before, kinds+pages-1)
	})
	b.Run("Again", func(b *testing.B) {
		c := started()
		look(b, c)
		before := requestsOf(b, source, target)
		for b.Loop() {
			look(b, c)
		}
		demandRequests(b, requestsOf(b, source, target)-before, kinds)
	})
}

// benchHosts are the hosts in each namespace of the benchmark.
const benchHosts = 50

func benchServer(b *testing.B) *env.Server {
	b.Helper()
	server, err := env.Start(b.Context(), env.Options{
		Definitions: []components.Group{components.Provider, components.ClusterAPI, components.BaremetalOperator},
		Audit:       true, WatchCache: true,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := server.Stop(); err != nil {
			b.Error(err)
		}
	})
	return server
}

func viewerKubeconfig(b *testing.B, server *env.Server) string {
	b.Helper()
	config, err := server.User(viewer, "system:masters")
	if err != nil {
		b.Fatal(err)
	}
	path, err := server.WriteKubeconfig(viewer, config)
	if err != nil {
		b.Fatal(err)
	}
	return path
}

// fillNamespaces creates a Cluster with its hosts in each namespace.
func fillNamespaces(b *testing.B, c client.Client) {
	b.Helper()
	var work errgroup.Group
	work.SetLimit(8)
	for i := range namespaces {
		name := fmt.Sprintf("site-%02d", i)
		here := build.InNamespace(name)
		cluster := build.Cluster("c", here)
		for _, object := range []client.Object{build.Namespace(name), cluster} {
			if err := c.Create(b.Context(), object); err != nil {
				b.Fatal(err)
			}
		}
		objects := []client.Object{build.Metal3Cluster("c", here, build.OwnedBy(cluster))}
		for j := range benchHosts {
			host := build.Host(fmt.Sprintf("host-%02d", j), here, build.Available())
			host.Status.HardwareDetails = build.Inspection(host.Name, j)
			objects = append(objects, host)
		}
		for _, object := range objects {
			work.Go(func() error { return build.CreateWithStatus(b.Context(), c, object) })
		}
	}
	if err := work.Wait(); err != nil {
		b.Fatal(err)
	}
}

// requestsOf counts the requests of the plugin.
func requestsOf(b *testing.B, servers ...*env.Server) int {
	b.Helper()
	count := 0
	for _, server := range servers {
		requests, err := server.Requests()
		if err != nil {
			b.Fatal(err)
		}
		for _, request := range requests {
			if request.User == viewer {
				count++
			}
		}
	}
	return count
}

func demandRequests(b *testing.B, got, each int) {
	b.Helper()
	b.ReportMetric(float64(got)/float64(b.N), "requests/op")
	if got != each*b.N {
		b.Errorf("%d requests for %d looks, want %d each", got, b.N, each)
	}
}
