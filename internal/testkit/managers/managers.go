// Package managers runs the managers of Cluster API providers as processes against a management cluster that has no
// nodes.
//
// A provider is installed first, as clusterctl does it. Its Deployment then says how the manager is to be run: the
// arguments, and the service account. The process gets the same arguments and acts as the same user, so that missing
// rights show up here and not at the user's. Only what belongs to a pod is replaced: ports, certificates, leader
// election; and the webhooks that were installed for a Service are pointed at the process.
//
// It refuses to guess: a namespace with no Deployment, or with several, is an error.
package managers

import (
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

// startLimit is how long a manager may take until it is ready. It is generous because machines that run tests are
// busy; a manager that ends is noticed at once.
const startLimit = 2 * time.Minute

// containerName is what the contract of clusterctl calls the container of a manager.
const containerName = "manager"

// Manager is a program and the provider that it belongs to.
type Manager struct {
	// Path of the program.
	Path string

	// Namespace that the provider is installed in.
	Namespace string

	// Args are added to those of the Deployment and win over them.
	Args []string
}

// Process is a manager that runs.
type Process struct {
	// Child is the process itself: its log, and whether it still runs.
	Child *process.Child

	// Metrics is the URL of its metrics, without authentication.
	Metrics string
}

// ClusterAPI are the three managers of Cluster API, in the namespaces that clusterctl installs them into. Folder is
// where binaries.Ensure puts the set binaries.ClusterAPI.
func ClusterAPI(folder string) []Manager {
	return []Manager{
		{Path: filepath.Join(folder, "core-manager"), Namespace: "capi-system"},
		{Path: filepath.Join(folder, "bootstrap-manager"), Namespace: "capi-kubeadm-bootstrap-system"},
		{Path: filepath.Join(folder, "control-plane-manager"), Namespace: "capi-kubeadm-control-plane-system"},
	}
}

// Provider is the manager of this provider.
func Provider(path string) Manager {
	return Manager{Path: path, Namespace: "capm3-system"}
}

// EnsureClusterAPI builds the managers of Cluster API if need be and returns them.
func EnsureClusterAPI(ctx context.Context, server *env.Server) ([]Manager, error) {
	folder, err := binaries.Ensure(ctx, server.Root(), binaries.ClusterAPI(), server.Progress())
	if err != nil {
		return nil, err
	}
	return ClusterAPI(folder), nil
}

// Start starts managers, points the webhooks of their providers at them and waits until they are ready. They end with
// the management cluster. All webhooks are redirected before any manager runs, because managers write objects of one
// another's kinds from the beginning.
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

// preparation is a manager that is ready to be started.
type preparation struct {
	program process.Program
	// health and diagnostics are the addresses that it will serve them on.
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
		"--health-addr="+prepared.health,
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
		return nil, fmt.Errorf("namespace %s has %d Deployments, want one; install the provider first", namespace,
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

// kubeconfigOf makes the manager act as the service account of its Deployment.
func kubeconfigOf(server *env.Server, deployment *appsv1.Deployment) (string, error) {
	namespace, account := deployment.Namespace, deployment.Spec.Template.Spec.ServiceAccountName
	config, err := server.User("system:serviceaccount:"+namespace+":"+account,
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
	if err != nil {
		return "", err
	}
	return server.WriteKubeconfig(namespace, config)
}

// Probe asks an address once, and fails unless it answers that all is well.
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
