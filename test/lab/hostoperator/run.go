package hostoperator

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// unreachable counts instead of reporting errors, because nothing is wrong with any host.
var unreachable = prometheus.NewCounter(prometheus.CounterOpts{
	Name: "lab_host_operator_ironic_unreachable_total",
	Help: "Looks at hosts that were put off because no usable Ironic answered.",
})

// Options are the settings of the operator.
type Options struct {
	// Namespace whose hosts are reconciled. Empty means all namespaces.
	Namespace string

	// HealthAddress serves /healthz and /readyz, MetricsAddress /metrics without authentication. "0" serves nothing.
	HealthAddress, MetricsAddress string

	// Concurrency is how many hosts are looked at at once.
	Concurrency int

	Rules step.Rules
}

// NewOptions returns the defaults.
func NewOptions() *Options {
	return &Options{
		HealthAddress:  ":9440",
		MetricsAddress: ":8080",
		Concurrency:    8,
		Rules: step.Rules{
			Poll: time.Second, Steady: time.Minute, Retry: 5 * time.Second, RetryLimit: 10 * time.Minute, Capacity: 20,
		},
	}
}

// Run runs the operator until the context ends. The definitions of its API have to be installed; Ironic may come later.
func Run(ctx context.Context, restConfig *rest.Config, settings ironicapi.Settings, options *Options) error {
	ironic, err := ironicapi.New(settings)
	if err != nil {
		return err
	}
	mgr, err := newManager(restConfig, options)
	if err != nil {
		return fmt.Errorf("making the manager: %w", err)
	}
	reconciler := &Reconciler{
		Client: mgr.GetClient(), Ironic: ironic, Clock: clock.RealClock{}, Rules: options.Rules,
	}
	if err := reconciler.SetupWithManager(mgr, controller.Options{
		MaxConcurrentReconciles: options.Concurrency,
	}); err != nil {
		return fmt.Errorf("adding the controller: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	// Tests run several in one process; they share the counter.
	if err := metrics.Registry.Register(unreachable); err != nil && !isRegistered(err) {
		return fmt.Errorf("registering the metrics: %w", err)
	}
	return mgr.Start(ctx)
}

func isRegistered(err error) bool {
	_, found := err.(prometheus.AlreadyRegisteredError) //nolint:errorlint // The registry returns it as it is.
	return found
}

func newManager(restConfig *rest.Config, options *Options) (ctrl.Manager, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, bmov1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("gathering the kinds: %w", err)
		}
	}
	known, err := labels.Parse(step.SecretLabel + "=" + step.SecretLabelValue)
	if err != nil {
		return nil, err
	}
	caches := cache.Options{ByObject: map[client.Object]cache.ByObject{&corev1.Secret{}: {Label: known}}}
	if options.Namespace != "" {
		caches.DefaultNamespaces = map[string]cache.Config{options.Namespace: {}}
	}
	// Tests run several in one process.
	shared := true
	return ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		Cache:                  caches,
		Metrics:                server.Options{BindAddress: options.MetricsAddress},
		HealthProbeBindAddress: options.HealthAddress,
		Controller:             config.Controller{SkipNameValidation: &shared},
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{
			&bmov1alpha1.BareMetalHost{}, &bmov1alpha1.HardwareData{}, &corev1.Secret{},
		}}},
	})
}
