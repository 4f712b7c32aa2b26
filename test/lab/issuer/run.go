package issuer

import (
	"context"
	"fmt"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// Run runs the controllers until the context ends. The CRDs of cert-manager must be installed. HealthAddress serves
// /healthz and /readyz; "0" serves nothing.
//
// It has no leader election: two processes issue a redundant certificate, and the last one stays.
func Run(ctx context.Context, restConfig *rest.Config, healthAddress string) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme} {
		if err := add(scheme); err != nil {
			return fmt.Errorf("gathering the kinds: %w", err)
		}
	}
	// Tests run several in one process.
	shared := true
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme:                 scheme,
		Metrics:                server.Options{BindAddress: "0"},
		HealthProbeBindAddress: healthAddress,
		Controller:             config.Controller{SkipNameValidation: &shared},
		Client:                 client.Options{Cache: &client.CacheOptions{Unstructured: true}},
	})
	if err != nil {
		return fmt.Errorf("creating the manager: %w", err)
	}
	controllers := []interface{ setup(ctrl.Manager) error }{
		&issuerReconciler{client: mgr.GetClient(), secret: mgr.GetAPIReader(), kind: issuerKind},
		&issuerReconciler{client: mgr.GetClient(), secret: mgr.GetAPIReader(), kind: clusterIssuerKind},
		&certificateReconciler{client: mgr.GetClient(), secret: mgr.GetAPIReader(), now: time.Now},
	}
	for _, one := range injectors(mgr) {
		controllers = append(controllers, one)
	}
	for _, controller := range controllers {
		if err := controller.setup(mgr); err != nil {
			return fmt.Errorf("starting a controller: %w", err)
		}
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return err
	}
	return mgr.Start(ctx)
}
