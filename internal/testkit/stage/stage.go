// Package stage runs stories of controllers: a manager like the real one, for one namespace of a real API server. A
// story can count, refuse and lose its writes, and cut its connection to the API server.
//
// The package imports no controller: a suite passes the setup of its controllers. The cache is that of the manager,
// because stories about outdated copies require the same copies.
package stage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/clustercache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// resync is the interval of the product, so that a story proves that an event enqueued the object.
const resync = 10 * time.Minute

// connectAgain is the time after which the cluster cache connects again. Its default of 30 seconds is too long for a
// story.
const connectAgain = 200 * time.Millisecond

// graceLimit is the time after which a manager ends without its goroutines. Two kinds of them may never end: a
// ClusterCache that is connecting waits for a watch that has ended, and a queue of controller-runtime that hands out an
// object while it shuts down waits for a worker that waits for the queue. Neither writes.
const (
	graceLimit = 2 * time.Second
	graceError = "failed waiting for all runnables to end within grace period"
)

// stopLimit is the time limit for the end of a manager.
const stopLimit = time.Minute

// mappers are shared by all managers, because building them takes longer than many stories. They are by address of the
// API server, and learn new kinds. A manager with another connection has its own.
var mappers sync.Map

// Start starts a management cluster that ends with the suite.
func Start(ctx context.Context, options env.Options) *env.Server {
	GinkgoHelper()
	options.Progress, options.Roomy = GinkgoWriter, true
	server, err := env.Start(ctx, options)
	Expect(err).NotTo(HaveOccurred())
	mappers.Store(server.Config.Host, server.Client.RESTMapper())
	DeferCleanup(func() { Expect(server.Stop()).To(Succeed()) })
	return server
}

// Namespace creates a namespace for one story.
func Namespace(ctx context.Context, server *env.Server) string {
	GinkgoHelper()
	namespace := &corev1.Namespace{}
	namespace.GenerateName = "story-"
	Expect(server.Client.Create(ctx, namespace)).To(Succeed())
	return namespace.Name
}

// Manager has the settings of a manager.
type Manager struct {
	// Config is its connection to the API server.
	Config *rest.Config

	// Namespace is the only namespace in its cache, with Others.
	Namespace string
	Others    []string

	// Everywhere are objects of the kinds of which it caches all namespaces.
	Everywhere []client.Object

	// Writes counts and judges the writes of its client. Nil accepts all.
	Writes *Writes

	// Clusters connects it to workload clusters. Without it, no workload cluster answers.
	Clusters bool

	// KindsChange is for a suite that removes CRDs. Otherwise, all managers of an API server share what they know of its
	// kinds.
	KindsChange bool

	// ManagedFields keeps managedFields in the cache, which controllers of Cluster API require.
	ManagedFields bool

	// Setup adds the controllers. They must accept duplicate names, because stories run several managers.
	Setup func(ctx context.Context, mgr ctrl.Manager, clusters clustercache.ClusterCache) error
}

// Running is a running manager.
type Running struct {
	cancel context.CancelFunc
	// ended is closed at the end of the manager, and err is its error then.
	ended chan struct{}
	err   error
}

// Start runs the manager until Stop or the end of the spec. It does not wait until the controllers run.
func (m Manager) Start() *Running {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctrl.LoggerInto(context.Background(), ctrl.Log))
	mgr, err := m.build()
	Expect(err).NotTo(HaveOccurred())
	clusters, shutdown, err := m.clusters(ctx, mgr)
	Expect(err).NotTo(HaveOccurred())
	Expect(m.Setup(ctx, mgr, clusters)).To(Succeed())
	running := Go(ctx, cancel, func(ctx context.Context) error {
		defer shutdown()
		return mgr.Start(ctx)
	})
	DeferCleanup(running.Stop)
	return running
}

// Go runs a manager until Stop. Cancel ends the context.
func Go(ctx context.Context, cancel context.CancelFunc, run func(context.Context) error) *Running {
	running := &Running{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(running.ended)
		running.err = run(ctx)
	}()
	return running
}

// RequireRunning stops an Eventually of the caller if the manager has ended.
func (r *Running) RequireRunning() {
	select {
	case <-r.ended:
		StopTrying("the manager has ended").Wrap(r.err).Now()
	default:
	}
}

// Stop ends the manager, waits for its end and requires that it had no error. A second call does nothing.
func (r *Running) Stop() {
	GinkgoHelper()
	r.cancel()
	Eventually(r.ended).WithTimeout(stopLimit).Should(BeClosed())
	if r.err != nil {
		Expect(r.err).To(MatchError(ContainSubstring(graceError)))
	}
}

func (m Manager) build() (ctrl.Manager, error) {
	clusterSecrets, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	if err != nil {
		return nil, err
	}
	period, limit := resync, graceLimit
	config := rest.CopyConfig(m.Config)
	transform := cache.TransformStripManagedFields()
	if m.ManagedFields {
		transform = nil
	}
	kinds := map[client.Object]cache.ByObject{
		&bmov1alpha1.BareMetalHost{}: {Transform: hoststore.Slim},
		&corev1.Secret{}:             {Label: labels.NewSelector().Add(*clusterSecrets)},
	}
	for _, kind := range m.Everywhere {
		kinds[kind] = cache.ByObject{Namespaces: map[string]cache.Config{}}
	}
	// The API server warns about the names of finalizers of other projects.
	config.WarningHandler = rest.NoWarnings{}
	return ctrl.NewManager(config, ctrl.Options{
		Scheme:                  build.SharedScheme(),
		MapperProvider:          m.mapper,
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		GracefulShutdownTimeout: &limit,
		Cache: cache.Options{
			SyncPeriod:        &period,
			DefaultNamespaces: m.namespaces(),
			DefaultTransform:  transform,
			ByObject:          kinds,
		},
		Client: client.Options{Cache: &client.CacheOptions{
			DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}},
		}},
		NewClient: m.client,
	})
}

func (m Manager) mapper(config *rest.Config, http *http.Client) (meta.RESTMapper, error) {
	if known, exists := mappers.Load(config.Host); exists && !m.KindsChange {
		if mapper, is := known.(meta.RESTMapper); is {
			return mapper, nil
		}
	}
	return apiutil.NewDynamicRESTMapper(config, http)
}

func (m Manager) client(config *rest.Config, options client.Options) (client.Client, error) {
	direct, err := client.NewWithWatch(config, options)
	if err != nil || m.Writes == nil {
		return direct, err
	}
	return interceptor.NewClient(direct, m.Writes.funcs()), nil
}

// clusters connects to workload clusters. The returned function ends the goroutines of the cluster cache.
func (m Manager) clusters(ctx context.Context, mgr ctrl.Manager) (clustercache.ClusterCache, func(), error) {
	if !m.Clusters {
		return clustercache.NewFakeEmptyClusterCache(), func() {}, nil
	}
	shared := true
	clusters, err := clustercache.SetupWithManager(ctx, mgr, clustercache.Options{
		SecretClient: mgr.GetAPIReader(),
		Cache: clustercache.CacheOptions{Indexes: []clustercache.CacheOptionsIndex{
			clustercache.NodeProviderIDIndex, workload.HostUIDIndex, workload.HostnameIndex,
		}},
		Client: clustercache.ClientOptions{UserAgent: "stage"},
	}, controller.Options{SkipNameValidation: &shared})
	if err != nil {
		return nil, nil, fmt.Errorf("connecting to workload clusters: %w", err)
	}
	testable, isTestable := clusters.(interface {
		SetConnectionCreationRetryInterval(interval time.Duration)
		Shutdown()
	})
	if !isTestable {
		return nil, nil, errors.New("the cluster cache cannot be shut down")
	}
	testable.SetConnectionCreationRetryInterval(connectAgain)
	return clusters, testable.Shutdown, nil
}

// namespaces returns the namespaces in the cache of the manager.
func (m Manager) namespaces() map[string]cache.Config {
	seen := map[string]cache.Config{m.Namespace: {}}
	for _, other := range m.Others {
		seen[other] = cache.Config{}
	}
	return seen
}
