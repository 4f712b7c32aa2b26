package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/hostsim"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
)

// namespace of everything that the demo creates.
const namespace = build.DefaultNamespace

// Work of a simulated host takes long enough to be seen.
const work = 2 * time.Second

// platform is the management cluster and what runs on it.
type platform struct {
	server     *env.Server
	clusterctl components.Clusterctl
	processes  []*managers.Process
	started    time.Time

	// shown is what was printed last of each object.
	shown map[string]string
}

func newPlatform(ctx context.Context) (*platform, error) {
	place := &platform{started: time.Now()}
	place.say("Starting etcd, kube-apiserver and the garbage collector")
	server, err := env.Start(ctx, env.Options{
		Definitions: []components.Group{components.HostOperator, components.AddressManager},
		Progress:    os.Stdout,
	})
	if err != nil {
		return nil, fmt.Errorf("starting the management cluster: %w", err)
	}
	place.server = server
	return place, nil
}

// say prints one line with the time since the start.
func (p *platform) say(format string, values ...any) {
	fmt.Printf("[%6.1fs] %s\n", time.Since(p.started).Seconds(), fmt.Sprintf(format, values...))
}

func (p *platform) stop() {
	if err := p.server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "Stopping the management cluster:", err)
	}
}

func (p *platform) showLogs() {
	for _, process := range p.processes {
		fmt.Fprintf(os.Stderr, "\n--- end of %s\n%s\n", filepath.Base(process.Child.LogFile()), process.Child.LogTail())
	}
}

// install installs Cluster API and this provider as a user would, and runs their managers as processes.
func (p *platform) install(ctx context.Context) error {
	if err := p.writeRepository(ctx, filepath.Join(filepath.Dir(p.server.Kubeconfig), "repository")); err != nil {
		return err
	}
	p.say("clusterctl init --infrastructure metal3")
	if _, err := p.clusterctl.Run(ctx, "init", "--infrastructure=metal3"); err != nil {
		return err
	}
	if err := p.server.StartControllerManager(ctx); err != nil {
		return err
	}
	p.say("Starting the managers of Cluster API and of this provider, with the rights that were installed")
	wanted, err := managers.EnsureClusterAPI(ctx, p.server)
	if err != nil {
		return err
	}
	manager, err := p.buildManager(ctx)
	if err != nil {
		return err
	}
	p.processes, err = managers.Start(ctx, p.server, append(wanted, managers.Provider(manager))...)
	if err != nil {
		return err
	}
	go func() {
		delays := hostsim.Delays{Register: work, Inspect: work, Provision: work, Deprovision: work}
		if err := hostsim.Run(ctx, p.server.Config, hostsim.Options{Namespace: namespace, Delays: delays}); err != nil {
			p.say("The simulated host operator ended: %v", err)
		}
	}()
	return p.server.Client.Create(ctx, build.Namespace(namespace))
}

// writeRepository makes the clusterctl repository, in a folder that goes with the management cluster.
func (p *platform) writeRepository(ctx context.Context, folder string) error {
	releases, err := filepath.Glob(filepath.Join(p.server.Root(), "out", "release", "v*"))
	if err != nil || len(releases) == 0 {
		return fmt.Errorf("out/release holds no release: run make release-manifests (%w)", err)
	}
	source := components.Source{Root: p.server.Root(), Progress: os.Stdout}
	repository := components.Repository{Folder: folder, Release: releases[len(releases)-1]}
	config, err := source.WriteRepository(ctx, repository)
	if err != nil {
		return fmt.Errorf("writing the clusterctl repository: %w", err)
	}
	p.clusterctl, err = source.Clusterctl(ctx, config, p.server.Kubeconfig)
	p.clusterctl.Variables = []string{
		"CLUSTER_APIENDPOINT_HOST=" + build.EndpointHost,
		"IMAGE_URL=" + build.ImageURL,
		"IMAGE_CHECKSUM=" + build.ImageURL + ".sha256sum",
	}
	return err
}

func (p *platform) buildManager(ctx context.Context) (string, error) {
	path := filepath.Join(filepath.Dir(p.server.Kubeconfig), "manager")
	command := exec.CommandContext(ctx, "go", "build", "-tags=fieldsv1string", "-o", path, ".")
	command.Dir = p.server.Root()
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building the manager: %w\n%s", err, output)
	}
	return path, nil
}

// apply creates what a manifest describes.
func (p *platform) apply(ctx context.Context, manifest string) error {
	_, err := p.server.KubectlWithInput(ctx, strings.NewReader(manifest), "apply", "-f", "-")
	return err
}
