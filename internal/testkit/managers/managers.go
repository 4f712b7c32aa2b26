// Package managers runs the managers of Cluster API providers as processes for a management cluster without nodes.
//
// A provider must be installed first. The process gets the arguments and the service account of its Deployment, so
// that missing permissions cause errors. Only ports, certificates and leader election differ, and the webhooks of the
// Service are redirected to the process. A namespace without exactly one Deployment is an error.
package managers

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
)

// startLimit is the time limit for the readiness of a manager. It is long because machines that run tests are busy.
// An ended manager is detected at once.
const startLimit = 2 * time.Minute

// containerName is the name of the container of a manager in the contract of clusterctl.
const containerName = "manager"

// Manager is the manager of a provider.
type Manager struct {
	// Path of the program.
	Path string

	// Namespace of the provider.
	Namespace string

	// Args are added to those of the Deployment and have precedence.
	Args []string

	// HealthFlag is the flag of the address of probes. The default is --health-addr.
	HealthFlag string
}

// Process is a running manager.
type Process struct {
	// Child is the process.
	Child *process.Child

	// Metrics is the URL of its metrics, without authentication.
	Metrics string
}

// ClusterAPI returns the three managers of Cluster API. Folder is the result of binaries.Ensure for the set
// binaries.ClusterAPI.
func ClusterAPI(folder string) []Manager {
	return []Manager{
		{Path: filepath.Join(folder, "core-manager"), Namespace: "capi-system"},
		{Path: filepath.Join(folder, "bootstrap-manager"), Namespace: "capi-kubeadm-bootstrap-system"},
		{Path: filepath.Join(folder, "control-plane-manager"), Namespace: "capi-kubeadm-control-plane-system"},
	}
}

// Provider returns the manager of this provider.
func Provider(path string) Manager {
	return Manager{Path: path, Namespace: "capm3-system"}
}

// EnsureClusterAPI returns the managers of Cluster API, and builds them if required.
func EnsureClusterAPI(ctx context.Context, server *env.Server) ([]Manager, error) {
	folder, err := binaries.Ensure(ctx, server.Root(), binaries.ClusterAPI(), server.Progress())
	if err != nil {
		return nil, err
	}
	return ClusterAPI(folder), nil
}

// Start starts managers, redirects the webhooks of their providers, and blocks until the managers are ready. They end
// with the management cluster. It redirects all webhooks before it starts a manager, because the managers write
// objects of each other's kinds.
func Start(ctx context.Context, server *env.Server, managers ...Manager) ([]*Process, error) {
	prepared := make([]preparation, len(managers))
	for i, manager := range managers {
		var err error
		if prepared[i], err = prepare(ctx, server, manager); err != nil {
			return nil, fmt.Errorf("preparing the manager of %s: %w", manager.Namespace, err)
		}
	}
	processes := make([]*Process, len(managers))
	for i, preparation := range prepared {
		child, err := server.Group().Start(preparation.program)
		if err != nil {
			return nil, err
		}
		processes[i] = &Process{Child: child, Metrics: "http://" + preparation.diagnostics + "/metrics"}
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	for i, preparation := range prepared {
		ready := func(ctx context.Context) error { return Probe(ctx, "http://"+preparation.health+"/readyz") }
		if err := processes[i].Child.WaitReady(ctx, ready); err != nil {
			return nil, err
		}
	}
	return processes, nil
}

// preparation is a manager before its start.
type preparation struct {
	program process.Program
	// health and diagnostics are the addresses that it serves.
	health      string
	diagnostics string
}

func prepare(ctx context.Context, server *env.Server, manager Manager) (preparation, error) {
	deployment, err := deploymentOf(ctx, server, manager.Namespace)
	if err != nil {
		return preparation{}, err
	}
	container, err := containerOf(deployment)
	if err != nil {
		return preparation{}, err
	}
	kubeconfig, err := kubeconfigOf(server, deployment)
	if err != nil {
		return preparation{}, err
	}
	webhooks, err := server.NewWebhookServer(manager.Namespace)
	if err != nil {
		return preparation{}, err
	}
	var prepared preparation
	for _, address := range []*string{&prepared.health, &prepared.diagnostics} {
		if *address, err = server.Group().Address(); err != nil {
			return preparation{}, err
		}
	}
	args := append(slices.Clone(container.Args),
		"--leader-elect=false",
		"--webhook-port="+strconv.Itoa(webhooks.Port),
		"--webhook-cert-dir="+webhooks.CertDir,
		cmp.Or(manager.HealthFlag, "--health-addr")+"="+prepared.health,
		"--diagnostics-address="+prepared.diagnostics,
		"--insecure-diagnostics=true",
	)
	prepared.program = process.Program{
		Name: manager.Namespace, Path: manager.Path, Args: append(args, manager.Args...),
		Env: []string{
			"KUBECONFIG=" + kubeconfig,
			"POD_NAMESPACE=" + manager.Namespace, "POD_NAME=" + deployment.Name, "POD_UID=" + string(deployment.UID),
		},
	}
	return prepared, server.RedirectWebhooks(ctx, manager.Namespace, webhooks)
}

func deploymentOf(ctx context.Context, server *env.Server, namespace string) (*appsv1.Deployment, error) {
	var deployments appsv1.DeploymentList
	if err := server.Client.List(ctx, &deployments, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	if len(deployments.Items) != 1 {
		return nil, fmt.Errorf("namespace %s has %d Deployments, want one: install the provider first", namespace,
			len(deployments.Items))
	}
	return &deployments.Items[0], nil
}

func containerOf(deployment *appsv1.Deployment) (corev1.Container, error) {
	for _, container := range deployment.Spec.Template.Spec.Containers {
		if container.Name == containerName {
			return container, nil
		}
	}
	return corev1.Container{}, fmt.Errorf("the Deployment %s has no container %s", deployment.Name, containerName)
}

// kubeconfigOf writes a kubeconfig of the service account of the Deployment.
func kubeconfigOf(server *env.Server, deployment *appsv1.Deployment) (string, error) {
	config, err := server.ServiceAccount(deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName)
	if err != nil {
		return "", err
	}
	return server.WriteKubeconfig(deployment.Namespace, config)
}

// Probe requests an address once. It returns an error unless the status is 200.
func Probe(ctx context.Context, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := response.Body.Close(); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	return nil
}
