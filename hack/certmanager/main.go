// Command cert-manager is the released cert-manager, with the issuers that Cluster API and its providers use: self-signed
// and CA. It runs the controllers, the injector of CA bundles and the webhook in one process.
//
// The commands of cert-manager are modules that the Go proxy does not serve. This command starts the same packages. The
// name of its module permits the import of the webhook, which is internal to cert-manager.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/cert-manager/cert-manager/internal/webhook"
	cmscheme "github.com/cert-manager/cert-manager/pkg/client/clientset/versioned/scheme"
	"github.com/cert-manager/cert-manager/pkg/controller"
	"github.com/cert-manager/cert-manager/pkg/controller/cainjector"
	logf "github.com/cert-manager/cert-manager/pkg/logs"
	"github.com/cert-manager/cert-manager/pkg/util"
	"github.com/cert-manager/cert-manager/pkg/webhook/options"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubescheme "k8s.io/client-go/kubernetes/scheme"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/approver"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/ca"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificaterequests/selfsigned"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/issuing"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/keymanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/readiness"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/requestmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/revisionmanager"
	_ "github.com/cert-manager/cert-manager/pkg/controller/certificates/trigger"
	_ "github.com/cert-manager/cert-manager/pkg/controller/clusterissuers"
	_ "github.com/cert-manager/cert-manager/pkg/controller/issuers"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/ca"
	_ "github.com/cert-manager/cert-manager/pkg/issuer/selfsigned"
)

const (
	// workers is the number of workers of each controller, as in a release.
	workers = 5

	// webhookName is the name of the Service of the webhook, and the first part of the name of the Secret with its CA.
	webhookName = "cert-manager-webhook"
)

func main() {
	namespace := flag.String("namespace", "cert-manager", "namespace of the Secrets of ClusterIssuers and of the webhook")
	flag.Parse()
	logf.InitLogs()
	ctrl.SetLogger(logf.Log)
	ctx, stop := signal.NotifyContext(logf.NewContext(context.Background(), logf.Log), os.Interrupt, syscall.SIGTERM)
	defer stop()
	parts, ctx := errgroup.WithContext(ctx)
	parts.Go(func() error { return runControllers(ctx, *namespace) })
	parts.Go(func() error { return runInjector(ctx) })
	parts.Go(func() error { return runWebhook(ctx, *namespace) })
	if err := parts.Wait(); err != nil && ctx.Err() == nil {
		fmt.Fprintln(os.Stderr, "cert-manager:", err)
		stop()
		os.Exit(1)
	}
}

// runControllers runs the controllers of issuers, certificates and requests.
func runControllers(ctx context.Context, namespace string) error {
	factory, err := controller.NewContextFactory(ctx, controller.ContextOptions{
		KubernetesAPIQPS:   20,
		KubernetesAPIBurst: 50,
		IssuerOptions:      controller.IssuerOptions{ClusterResourceNamespace: namespace},
		CertificateOptions: controller.CertificateOptions{
			CertificateRequestMinimumBackoffDuration: time.Hour, CertificateRequestMaximumBackoffDuration: 32 * time.Hour,
		},
	})
	if err != nil {
		return err
	}
	shared, err := factory.Build()
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	for name, create := range controller.Known() {
		one, err := create(factory)
		if err != nil {
			return fmt.Errorf("creating the controller %s: %w", name, err)
		}
		running.Go(func() error { return one.Run(workers, ctx) })
	}
	shared.SharedInformerFactory.Start(ctx.Done())
	shared.KubeSharedInformerFactory.Start(ctx.Done())
	return running.Wait()
}

// runInjector writes the CAs of certificates and Secrets into webhooks, CRDs and API services.
func runInjector(ctx context.Context) error {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		kubescheme.AddToScheme, cmscheme.AddToScheme, apiextensionsv1.AddToScheme, apiregistrationv1.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return err
		}
	}
	// The injector applies with the user agent as field manager.
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	mgr, err := ctrl.NewManager(util.RestConfigWithUserAgent(config, "cainjector"), ctrl.Options{
		Scheme:  scheme,
		Cache:   cache.Options{ReaderFailOnMissingInformer: true},
		Client:  client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}}}},
		Metrics: server.Options{BindAddress: "0"},
	})
	if err != nil {
		return err
	}
	if err := cainjector.RegisterAllInjectors(ctx, mgr, cainjector.SetupOptions{
		EnableCertificatesDataSource: true,
		EnabledReconcilersFor: map[string]bool{
			cainjector.MutatingWebhookConfigurationName: true, cainjector.ValidatingWebhookConfigurationName: true,
			cainjector.CustomResourceDefinitionName: true, cainjector.APIServiceName: true,
		},
	}); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// runWebhook serves the admission of the kinds of cert-manager, with a certificate that it renews itself.
func runWebhook(ctx context.Context, namespace string) error {
	configuration, err := options.NewWebhookConfiguration()
	if err != nil {
		return err
	}
	configuration.MetricsListenAddress = "0"
	configuration.TLSConfig.Dynamic.SecretNamespace = namespace
	configuration.TLSConfig.Dynamic.SecretName = webhookName + "-ca"
	configuration.TLSConfig.Dynamic.DNSNames = []string{webhookName + "." + namespace + ".svc"}
	serving, err := webhook.NewCertManagerWebhookServer(logf.Log, *configuration)
	if err != nil {
		return err
	}
	return serving.Run(ctx)
}
