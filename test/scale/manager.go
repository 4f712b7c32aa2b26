package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
)

const (
	// managerUser is who the manager is for the API server.
	managerUser = "system:serviceaccount:capm3-system:manager"

	// managerStart is how long the manager may take until it is ready.
	managerStart = 2 * time.Minute
)

// buildManager builds the manager as it is released.
func buildManager(ctx context.Context, folder string) (string, error) {
	root, err := binaries.Root()
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "manager")
	command := exec.CommandContext(ctx, "go", "build", "-tags=fieldsv1string", "-trimpath", "-o", path, ".")
	command.Dir = root
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the manager: %w\n%s", err, output)
	}
	return path, nil
}

// manager is the process under measurement.
type manager struct {
	child *process.Child

	// profiler is the address of its profiler. Empty without one.
	profiler string
}

// startManager starts the manager with the rights that it gets when it is installed and waits until it is ready.
func startManager(ctx context.Context, server *env.Server, settings settings) (*manager, error) {
	if err := grantRights(ctx, server, settings.capm3); err != nil {
		return nil, fmt.Errorf("granting the manager its rights: %w", err)
	}
	webhook := server.Webhook
	if settings.capm3 {
		var err error
		if webhook, err = server.NewWebhookServer("capm3"); err != nil {
			return nil, err
		}
	}
	config, err := server.User(managerUser)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := server.WriteKubeconfig("manager", config)
	if err != nil {
		return nil, err
	}
	var health, diagnostics, profiler string
	for _, address := range []*string{&health, &diagnostics, &profiler} {
		if *address, err = server.Group().Address(); err != nil {
			return nil, err
		}
	}
	args := []string{
		"--webhook-port=" + strconv.Itoa(webhook.Port),
		"--webhook-cert-dir=" + webhook.CertDir,
		"--health-addr=" + health,
		"--diagnostics-address=" + diagnostics,
	}
	started := &manager{}
	if settings.profiles != "" {
		started.profiler = profiler
		args = append(args, "--profiler-address="+profiler)
	}
	program := process.Program{
		Name: "manager", Path: settings.manager, Args: args, Env: []string{"KUBECONFIG=" + kubeconfig},
	}
	if started.child, err = server.Group().Start(program); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, managerStart)
	defer cancel()
	return started, started.child.WaitReady(ctx, func(ctx context.Context) error {
		return fetch(ctx, "http://"+health+"/readyz", os.DevNull)
	})
}

// grantRights installs the role of the manager as it is released. CAPM3, whose role is not here, is an administrator.
func grantRights(ctx context.Context, server *env.Server, capm3 bool) error {
	if capm3 {
		return bind(ctx, server, "cluster-admin")
	}
	content, err := os.ReadFile(filepath.Join(server.Root(), "config", "rbac", "role.yaml"))
	if err != nil {
		return err
	}
	role := &rbacv1.ClusterRole{}
	if err := yaml.Unmarshal(content, role); err != nil {
		return fmt.Errorf("parsing the role: %w", err)
	}
	if err := server.Client.Create(ctx, role); err != nil {
		return err
	}
	return bind(ctx, server, role.Name)
}

// bind gives the manager a ClusterRole.
func bind(ctx context.Context, server *env.Server, role string) error {
	return server.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser}},
	})
}

// fetch gets a page and stores it in a file.
func fetch(ctx context.Context, address, path string) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", address, response.Status)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.ReadFrom(response.Body)
	return errors.Join(err, file.Close())
}
