package app

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metal3ipamv1 "github.com/metal3-io/ip-address-manager/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/cluster-api/controllers/remote"
	"sigs.k8s.io/cluster-api/util/apiwarnings"
	"sigs.k8s.io/cluster-api/util/flags"
	"sigs.k8s.io/cluster-api/util/secret"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1beta1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta1"
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/wire"
)

const (
	// name is the user agent of the manager.
	name = "cluster-api-provider-metal3"

	// leaderElectionID is the name of the lease, which CAPM3 uses too. It keeps the two apart only if both run with
	// --leader-elect. The Deployment of CAPM3 does not.
	leaderElectionID = "controller-leader-election-capm3"

	// cacheSyncTimeout is long enough to list the objects of a large installation.
	cacheSyncTimeout = 5 * time.Minute

	// dialTimeout is how long a connection for watches may take, and the time between its keep-alives, as for requests.
	dialTimeout = 30 * time.Second
)

// StopLimit is the time after which the manager ends although goroutines of it run. It is less than the
// terminationGracePeriodSeconds of the Deployment, so that the manager always releases its lease: a queue of
// controller-runtime v0.24 that hands out an object while it shuts down never ends.
const StopLimit = 8 * time.Second

// NewScheme returns the scheme of the manager.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, bmov1alpha1.AddToScheme,
		ipamv1.AddToScheme, metal3ipamv1.AddToScheme, infrav1beta1.AddToScheme, infrav1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

func newManager(restConfig *rest.Config, settings *Flags) (ctrl.Manager, error) {
	restConfig.QPS = settings.QPS
	restConfig.Burst = settings.Burst
	restConfig.UserAgent = remote.DefaultClusterAPIUserAgent(name)
	restConfig.WarningHandler = apiwarnings.DefaultHandler(klog.Background().WithName("API server warning"))
	tlsOptions, metricsOptions, err := flags.GetManagerOptions(settings.Manager)
	if err != nil {
		return nil, fmt.Errorf("reading TLS flags: %w", err)
	}
	tlsOptions = append(tlsOptions, serveHTTP1)
	metricsOptions.TLSOpts = tlsOptions
	if settings.ContentionProfiling {
		goruntime.SetBlockProfileRate(1)
	}
	stopLimit := StopLimit
	return ctrl.NewManager(restConfig, ctrl.Options{
		GracefulShutdownTimeout:    &stopLimit,
		Scheme:                     NewScheme(),
		Controller:                 config.Controller{CacheSyncTimeout: cacheSyncTimeout},
		LeaderElection:             settings.LeaderElect,
		LeaderElectionID:           leaderElectionID,
		LeaderElectionNamespace:    settings.LeaseNamespace,
		LeaderElectionResourceLock: resourcelock.LeasesResourceLock,
		// The process ends as soon as its controllers have stopped, so the next manager need not wait for the lease.
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &settings.LeaseDuration,
		RenewDeadline:                 &settings.RenewDeadline,
		RetryPeriod:                   &settings.Retry,
		HealthProbeBindAddress:        settings.HealthAddress,
		PprofBindAddress:              settings.ProfilerAddress,
		Metrics:                       *metricsOptions,
		Cache:                         cacheOptions(settings),
		NewCache:                      newCache,
		MapperProvider:                newMapper,
		Client:                        clientOptions(),
		WebhookServer: webhook.NewServer(webhook.Options{
			Port:     settings.WebhookPort,
			CertDir:  settings.WebhookCertDir,
			CertName: settings.WebhookCert,
			KeyName:  settings.WebhookKey,
			TLSOpts:  tlsOptions,
		}),
	})
}

// serveHTTP1 disables HTTP/2. It costs the webhooks more processor time than HTTP/1.1, and clients that have not
// authenticated can exhaust a server by opening and cancelling streams.
func serveHTTP1(config *tls.Config) { config.NextProtos = []string{"http/1.1"} }

// newCache returns a cache that watches over a connection of its own. The API server serves each connection in one
// goroutine: watches that share it with many requests fall behind, and the API server closes them. The watches do not
// decode what the cache does not keep.
func newCache(restConfig *rest.Config, options cache.Options) (cache.Cache, error) {
	own := rest.CopyConfig(restConfig)
	own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	own.Wrap(func(next http.RoundTripper) http.RoundTripper { return wire.Watches{Next: next, Tree: unread} })
	var err error
	if options.HTTPClient, err = rest.HTTPClientFor(own); err != nil {
		return nil, fmt.Errorf("connecting the cache: %w", err)
	}
	return cache.New(own, options)
}

// unread returns the members of watched objects that their transform would remove.
func unread(request *http.Request) wire.Tree {
	if strings.HasSuffix(request.URL.Path, "/baremetalhosts") {
		return hoststore.Unread()
	}
	return wire.ManagedFields()
}

func cacheOptions(settings *Flags) cache.Options {
	options := cache.Options{
		SyncPeriod:       &settings.SyncPeriod,
		DefaultTransform: cache.TransformStripManagedFields(),
		ByObject: map[client.Object]cache.ByObject{
			&bmov1alpha1.BareMetalHost{}: {Transform: hoststore.Slim},
			&corev1.Secret{}:             {Label: clusterSecrets(), Transform: slimSecret},
		},
	}
	if settings.Namespace != "" {
		options.DefaultNamespaces = map[string]cache.Config{settings.Namespace: {}}
		// The Ironic of another namespace may serve the hosts. An empty map means all namespaces.
		options.ByObject[&infrav1.Metal3Cluster{}] = cache.ByObject{Namespaces: map[string]cache.Config{}}
	}
	return options
}

func clusterSecrets() labels.Selector {
	requirement, err := labels.NewRequirement(clusterv1.ClusterNameLabel, selection.Exists, nil)
	utilruntime.Must(err)
	return labels.NewSelector().Add(*requirement)
}

// slimSecret removes the values of a cached Secret and keeps its keys. It keeps kubeconfigs, which the ClusterCache
// reads.
func slimSecret(object any) (any, error) {
	cached, isSecret := object.(*corev1.Secret)
	if !isSecret {
		return object, nil
	}
	cached.ManagedFields = nil
	if strings.HasSuffix(cached.Name, "-"+string(secret.Kubeconfig)) {
		return cached, nil
	}
	for key := range cached.Data {
		cached.Data[key] = nil
	}
	return cached, nil
}

// clientOptions disables the cache for Secrets and ConfigMaps, because it would hold all of them.
func clientOptions() client.Options {
	return client.Options{Cache: &client.CacheOptions{
		DisableFor: []client.Object{&corev1.ConfigMap{}, &corev1.Secret{}},
	}}
}
