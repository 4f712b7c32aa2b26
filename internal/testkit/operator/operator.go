// Package operator runs the Baremetal Operator (BMO) as it is released, for a management cluster without nodes: it is
// a process with the roles and the webhooks of the release.
package operator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

const (
	// namespace and account are the names in the release.
	namespace = "baremetal-operator-system"
	account   = "baremetal-operator-controller-manager"

	// noKernel and noRamdisk are the URLs of a ramdisk that no machine boots.
	noKernel  = "http://images.example/kernel"
	noRamdisk = "http://images.example/ramdisk"

	// concurrency is the variable with the number of hosts that BMO reconciles at the same time.
	concurrency = "BMO_CONCURRENCY"

	// startLimit is the time limit until the webhooks answer.
	startLimit = 2 * time.Minute
)

// Operator is a BMO.
type Operator struct {
	Settings

	server          *env.Server
	webhook         env.WebhookServer
	program, health string
	kubeconfig      string

	// folder contains the files that BMO reads.
	folder string

	// starts counts the starts, for the names of the logs.
	process *process.Child
	starts  int
}

// Settings are the settings of BMO. A change has an effect at the next start.
type Settings struct {
	// Ironic is the Ironic of BMO.
	Ironic ironicapi.Endpoint

	// Kernel and Ramdisk are the URLs of the deploy ramdisk. The default is a ramdisk that no machine boots.
	Kernel, Ramdisk string

	// Flags are additional arguments.
	Flags []string
}

// Install installs the manifests of the release and starts BMO. The CRDs must exist. BMO ends with the management
// cluster. The function over returns the connection for the user of BMO. Nil means the direct one.
func Install(
	ctx context.Context, server *env.Server, settings Settings, over func(*rest.Config) *rest.Config,
) (*Operator, error) {
	folder, err := binaries.Ensure(ctx, server.Root(), binaries.BaremetalOperator(), server.Progress())
	if err != nil {
		return nil, err
	}
	o := &Operator{
		Settings: settings, server: server, program: filepath.Join(folder, "baremetal-operator"),
		folder: filepath.Join(server.Group().Folder(), "bmo"),
	}
	if o.webhook, err = server.NewWebhookServer("bmo-webhook"); err != nil {
		return nil, err
	}
	if o.health, err = server.Group().Address(); err != nil {
		return nil, err
	}
	certificates := filepath.Join(o.folder, "k8s-webhook-server")
	if err := os.MkdirAll(certificates, 0o750); err != nil {
		return nil, err
	}
	if err := os.Symlink(o.webhook.CertDir, filepath.Join(certificates, "serving-certs")); err != nil {
		return nil, err
	}
	if err := installManifests(ctx, server); err != nil {
		return nil, err
	}
	if o.kubeconfig, err = kubeconfigOf(server, over); err != nil {
		return nil, err
	}
	if err := o.Start(ctx); err != nil {
		return nil, err
	}
	return o, server.RedirectWebhooks(ctx, namespace, o.webhook)
}

// installManifests installs the manifests of the release, except for the Deployment and objects that only pods require.
func installManifests(ctx context.Context, server *env.Server) error {
	if err := server.Client.Create(ctx, build.Namespace(namespace)); err != nil {
		return err
	}
	module, err := components.Source{Root: server.Root(), Progress: server.Progress()}.BaremetalOperator(ctx)
	if err != nil {
		return err
	}
	objects, err := components.OperatorManifests(module)
	if err != nil {
		return err
	}
	return managers.Install(ctx, server, slices.DeleteFunc(objects, func(object unstructured.Unstructured) bool {
		return object.GetKind() == "Deployment"
	}))
}

// kubeconfigOf writes a kubeconfig of the service account of BMO.
func kubeconfigOf(server *env.Server, over func(*rest.Config) *rest.Config) (string, error) {
	user, err := server.ServiceAccount(namespace, account)
	if err != nil {
		return "", err
	}
	if over != nil {
		user = over(user)
	}
	return server.WriteKubeconfig("bmo", user)
}

// Start starts BMO with the permissions that it has in a cluster, and blocks until its webhooks answer.
func (o *Operator) Start(ctx context.Context) error {
	access := filepath.Join(o.folder, "auth", "ironic")
	if err := os.MkdirAll(access, 0o750); err != nil {
		return err
	}
	authority := filepath.Join(o.folder, "authority.crt")
	for path, content := range map[string][]byte{
		filepath.Join(access, "username"): []byte(o.Ironic.Username),
		filepath.Join(access, "password"): []byte(o.Ironic.Password),
		authority:                         o.Ironic.Authority,
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return err
		}
	}
	o.starts++
	started, err := o.server.Group().Start(process.Program{
		Name: fmt.Sprintf("bmo-%d", o.starts), Path: o.program,
		Args: append([]string{
			"-dev", "-metrics-addr=0", "-health-addr=" + o.health, fmt.Sprintf("-webhook-port=%d", o.webhook.Port),
		}, o.Flags...),
		Env: append(o.environment(),
			"METAL3_AUTH_ROOT_DIR="+filepath.Dir(access), "IRONIC_ENDPOINT="+o.Ironic.URL, "IRONIC_CACERT_FILE="+authority),
	})
	if err != nil {
		return err
	}
	o.process = started
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return started.WaitReady(ctx, func(ctx context.Context) error {
		return managers.Probe(ctx, "http://"+o.health+"/readyz")
	})
}

// environment returns the variables of BMO except for the access to Ironic.
func (o *Operator) environment() []string {
	kernel, ramdisk := noKernel, noRamdisk
	if o.Kernel != "" {
		kernel, ramdisk = o.Kernel, o.Ramdisk
	}
	variables := []string{
		"KUBECONFIG=" + o.kubeconfig, "TMPDIR=" + o.folder, "POD_NAMESPACE=" + namespace,
		"DEPLOY_KERNEL_URL=" + kernel, "DEPLOY_RAMDISK_URL=" + ramdisk,
	}
	if workers := os.Getenv(concurrency); workers != "" {
		variables = append(variables, concurrency+"="+workers)
	}
	return variables
}

// Kill kills BMO.
func (o *Operator) Kill() { o.process.Kill() }

// LogTail returns the end of the log since the last start.
func (o *Operator) LogTail() string { return o.process.LogTail() }
