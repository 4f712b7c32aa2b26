package main

import (
	"cmp"
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
	// managerUser is the user of the manager.
	managerUser = "system:serviceaccount:capm3-system:manager"

	// managerStart is the time limit for the readiness of the manager.
	managerStart = 2 * time.Minute
)

// subject is a manager to measure: its program, its ClusterRole (empty means that of this provider), whether the API
// server calls its webhooks, and whether its requests, memory and hosts are checked.
type subject struct {
	path, role             string
	hasWebhooks, isChecked bool
}

// startServer starts a management cluster for the manager.
func (s subject) startServer(ctx context.Context) (*env.Server, error) {
	server, err := env.Start(ctx, env.Options{
		Definitions: definitions(), Webhooks: s.hasWebhooks, Audit: true, WatchCache: true,
	})
	if err != nil || !s.hasWebhooks {
		return server, err
	}
	if err := installWebhookPatches(ctx, server); err != nil {
		return nil, errors.Join(fmt.Errorf("installing the patches of the webhooks: %w", err), server.Stop())
	}
	return server, nil
}

// buildManager builds the manager as in a release.
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

// manager is the measured process.
type manager struct {
	child *process.Child

	// profiler is the address of its profiler, or empty.
	profiler string
}

// startManager starts the manager with its installed RBAC rules and waits until it is ready.
func startManager(ctx context.Context, server *env.Server, settings settings) (*manager, error) {
	if err := grantRights(ctx, server, settings.subject.role); err != nil {
		return nil, fmt.Errorf("binding the role of the manager: %w", err)
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
		"--webhook-port=" + strconv.Itoa(server.Webhook.Port),
		"--webhook-cert-dir=" + server.Webhook.CertDir,
		"--health-addr=" + health,
		"--diagnostics-address=" + diagnostics,
	}
	started := &manager{}
	if settings.profiles != "" {
		started.profiler = profiler
		args = append(args, "--profiler-address="+profiler)
	}
	program := process.Program{
		Name: "manager", Path: settings.subject.path, Args: args, Env: []string{"KUBECONFIG=" + kubeconfig},
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

// grantRights installs the role of the manager as in a release, or another role, and binds it.
func grantRights(ctx context.Context, server *env.Server, other string) error {
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
	return server.Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "manager"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: cmp.Or(other, role.Name)},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: managerUser}},
	})
}

// fetch downloads a page into a file.
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
