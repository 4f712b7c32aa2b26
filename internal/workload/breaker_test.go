package workload_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// clusters is a ClusterCache of several clusters, whose health probes a test decides.
type clusters struct {
	clustercache.ClusterCache

	clients map[string]client.Client
	probed  map[string]time.Time

	// cached reads in place of the clients. Nil means that the clients read.
	cached client.Client

	// closed is true if there is no connection to any cluster, and tried is when one was last attempted or probed.
	closed bool
	tried  time.Time
}

func (c *clusters) GetUncachedClient(_ context.Context, cluster client.ObjectKey) (client.Client, error) {
	if c.closed {
		return nil, clustercache.ErrClusterNotConnected
	}
	return c.clients[cluster.Name], nil
}

func (c *clusters) GetRESTConfig(context.Context, client.ObjectKey) (*rest.Config, error) {
	return nil, clustercache.ErrClusterNotConnected
}

func (c *clusters) GetReader(_ context.Context, cluster client.ObjectKey) (client.Reader, error) {
	if c.closed {
		return nil, clustercache.ErrClusterNotConnected
	}
	if c.cached != nil {
		return c.cached, nil
	}
	return c.clients[cluster.Name], nil
}

func (c *clusters) GetHealthCheckingState(_ context.Context, cluster client.ObjectKey) clustercache.HealthCheckingState {
	return clustercache.HealthCheckingState{LastProbeTime: c.tried, LastProbeSuccessTime: c.probed[cluster.Name]}
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: build.DefaultNamespace, Name: name}
}

// TestAHangingServerBlocksOneRequest has one worker that writes Nodes of clusters whose API servers accept connections and
// never answer, and of a healthy one.
func TestAHangingServerBlocksOneRequest(t *testing.T) {
	const hanging = 3
	var accepted atomic.Int32
	listener := hang(t, &accepted)
	cache := &clusters{clients: map[string]client.Client{}, probed: map[string]time.Time{}}
	for i := range hanging {
		cache.clients[fmt.Sprintf("hangs-%d", i)] = remote(t, listener)
	}
	cache.clients["healthy"] = fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(node("node", "", "", "node")).Build()
	nodes := workload.New(cache, nil)
	for round := range 3 {
		for i := range hanging {
			err := nodes.SetProviderID(t.Context(), named(fmt.Sprintf("hangs-%d", i)), "node", "metal3://a/b/c")
			if !errors.Is(err, workload.ErrNoAnswer) {
				t.Fatalf("got %v", err)
			}
		}
		rack := fmt.Sprint(round)
		if err := nodes.SetLabels(t.Context(), named("healthy"), "node", map[string]*string{"rack": &rack}); err != nil {
			t.Errorf("a healthy cluster: %v", err)
		}
	}
	if got := accepted.Load(); got != hanging {
		t.Errorf("%d connections in three rounds, want one for each of %d clusters", got, hanging)
	}
}

// hang accepts connections, counts them, and never answers.
func hang(t *testing.T, accepted *atomic.Int32) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			t.Cleanup(func() { _ = connection.Close() })
		}
	}()
	return listener
}

// remote returns a client that does not read the kinds of the API server.
func remote(t *testing.T, listener net.Listener) client.Client {
	t.Helper()
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Node"), meta.RESTScopeRoot)
	c, err := client.New(&rest.Config{Host: "http://" + listener.Addr().String()}, client.Options{
		Scheme: build.Scheme(), Mapper: mapper,
	})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAHangingClusterIsTriedAgainAfterAProbe has a cluster that hangs and recovers, in the time of synctest.
func TestAHangingClusterIsTriedAgainAfterAProbe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs, requests := true, 0
		c := fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(node("node", "", "", "node")).
			WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey,
				object client.Object, options ...client.GetOption,
			) error {
				requests++
				if hangs {
					<-ctx.Done()
					return ctx.Err()
				}
				return c.Get(ctx, key, object, options...)
			}}).Build()
		cache := &clusters{clients: map[string]client.Client{"cluster": c}, probed: map[string]time.Time{}}
		nodes := workload.New(cache, nil)
		probed := func() { cache.probed["cluster"] = cache.probed["cluster"].Add(10 * time.Second) }
		read := func(times int) error {
			var err error
			for range times {
				_, err = nodes.Read(t.Context(), named("cluster"), "node")
			}
			return err
		}
		for _, step := range []struct {
			reason   string
			change   func()
			requests int
			fails    bool
		}{
			{"it does not answer", func() {}, 1, true},
			{"no probe has succeeded", func() { hangs = false }, 0, true},
			{"a probe has succeeded", probed, 5, false},
			{"it hangs again", func() { hangs = true }, 1, true},
			{"probes succeed and requests hang", probed, 1, true},
			{"it recovers", func() { hangs = false; probed() }, 5, false},
		} {
			step.change()
			requests = 0
			err := read(5)
			if requests != step.requests || errors.Is(err, workload.ErrNoAnswer) != step.fails || (err != nil) != step.fails {
				t.Errorf("%s: %d requests, want %d; %v", step.reason, requests, step.requests, err)
			}
		}
		hangs = true
		if _, err := nodes.Read(stopped(t), named("cluster"), "node"); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		hangs = false
		if err := read(1); err != nil {
			t.Errorf("after the stop of a manager: %v", err)
		}
	})
}

// TestWorkersOfOneHangingCluster starts a second request while the first one after a probe has no answer yet.
func TestWorkersOfOneHangingCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, _ client.WithWatch,
			_ client.ObjectKey, _ client.Object, _ ...client.GetOption,
		) error {
			requests++
			<-ctx.Done()
			return ctx.Err()
		}}).Build()
		cache := &clusters{clients: map[string]client.Client{"cluster": c}, probed: map[string]time.Time{}}
		nodes := workload.New(cache, nil)
		read := func() error {
			_, err := nodes.Read(t.Context(), named("cluster"), "node")
			return err
		}
		if err := read(); !errors.Is(err, workload.ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		cache.probed["cluster"] = time.Unix(1_700_000_000, 0)
		first := make(chan error)
		go func() { first <- read() }()
		synctest.Wait()
		if err := read(); !errors.Is(err, workload.ErrNoAnswer) || requests != 2 {
			t.Errorf("got %v with %d requests, want none for the second worker", err, requests)
		}
		if err := <-first; !errors.Is(err, workload.ErrNoAnswer) {
			t.Errorf("got %v", err)
		}
	})
}

// hangingWrites is a cluster with the node "node" that answers reads and no writes. It counts the writes.
func hangingWrites(writes *atomic.Int32) client.Client {
	return fake.NewClientBuilder().WithScheme(build.Scheme()).WithObjects(node("node", "", "", "node")).
		WithInterceptorFuncs(interceptor.Funcs{Patch: func(ctx context.Context, _ client.WithWatch, _ client.Object,
			_ client.Patch, _ ...client.PatchOption,
		) error {
			writes.Add(1)
			<-ctx.Done()
			return ctx.Err()
		}}).Build()
}

// TestAnsweredReadsHoldNoWorkers has workers that read the cache or the API server and then write, in a cluster that
// answers reads and health probes, and no writes.
func TestAnsweredReadsHoldNoWorkers(t *testing.T) {
	const workers = 8
	for name, read := range map[string]func(context.Context, *workload.Nodes) error{
		"Cached": func(ctx context.Context, nodes *workload.Nodes) error {
			_, _, err := nodes.Labels(ctx, named("cluster"), "node")
			return err
		},
		"Live": func(ctx context.Context, nodes *workload.Nodes) error {
			_, err := nodes.Read(ctx, named("cluster"), "node")
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes atomic.Int32
				cache := &clusters{
					clients: map[string]client.Client{"cluster": hangingWrites(&writes)}, probed: map[string]time.Time{},
				}
				nodes := workload.New(cache, nil)
				work := func() error {
					if err := read(t.Context(), nodes); err != nil {
						return err
					}
					return nodes.SetProviderID(t.Context(), named("cluster"), "node", "metal3://a/b/c")
				}
				if err := work(); !errors.Is(err, workload.ErrNoAnswer) {
					t.Fatalf("got %v", err)
				}
				for range 3 {
					cache.probed["cluster"] = cache.probed["cluster"].Add(10 * time.Second)
					writes.Store(0)
					var group sync.WaitGroup
					for range workers {
						group.Go(func() { _ = work() })
					}
					group.Wait()
					if got := writes.Load(); got != 1 {
						t.Errorf("%d of %d workers waited for a write, want 1", got, workers)
					}
				}
			})
		})
	}
}

// TestManyHangingClustersHoldFewWorkers has a worker for each of many clusters that answer health probes and no writes.
func TestManyHangingClustersHoldFewWorkers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const hanging = 20
		var writes atomic.Int32
		cache := &clusters{clients: map[string]client.Client{}, probed: map[string]time.Time{}}
		nodes := workload.New(cache, nil)
		var group sync.WaitGroup
		start := func() {
			for i := range hanging {
				group.Go(func() {
					_ = nodes.SetProviderID(t.Context(), named(fmt.Sprintf("hangs-%d", i)), "node", "metal3://a/b/c")
				})
			}
		}
		for i := range hanging {
			cache.clients[fmt.Sprintf("hangs-%d", i)] = hangingWrites(&writes)
		}
		start()
		group.Wait()
		for i := range hanging {
			cache.probed[fmt.Sprintf("hangs-%d", i)] = time.Unix(1_700_000_000, 0)
		}
		for range 2 {
			writes.Store(0)
			start()
			group.Wait()
			if got := writes.Load(); got != 4 {
				t.Errorf("%d workers waited for %d hanging clusters, want 4", got, hanging)
			}
		}
	})
}

// TestAClosedConnectionOfAHangingCluster closes the connection after a request without an answer. The ClusterCache keeps
// the time of the last successful health probe.
func TestAClosedConnectionOfAHangingCluster(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Get: func(ctx context.Context, _ client.WithWatch,
			_ client.ObjectKey, _ client.Object, _ ...client.GetOption,
		) error {
			<-ctx.Done()
			return ctx.Err()
		}}).Build()
		cache := &clusters{clients: map[string]client.Client{"cluster": c}, probed: map[string]time.Time{}}
		nodes := workload.New(cache, nil)
		if _, err := nodes.Read(t.Context(), named("cluster"), "node"); !errors.Is(err, workload.ErrNoAnswer) {
			t.Fatalf("got %v", err)
		}
		cache.closed = true
		for request, send := range map[string]func() error{
			"a live read":   func() error { _, err := nodes.Read(t.Context(), named("cluster"), "node"); return err },
			"a cached read": func() error { _, _, err := nodes.Labels(t.Context(), named("cluster"), "node"); return err },
			"the version":   func() error { _, err := nodes.Version(t.Context(), named("cluster")); return err },
		} {
			if err := send(); !errors.Is(err, workload.ErrUnreachable) {
				t.Errorf("%s: got %v", request, err)
			}
		}
	})
}

// stopped returns the context of a worker whose manager stops.
func stopped(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
