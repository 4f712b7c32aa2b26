package components

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// Clusterctl runs the real clusterctl against a management cluster, without any network.
type Clusterctl struct {
	// Path of the program.
	Path string

	// Config is the clusterctl.yaml that WriteRepository wrote.
	Config string

	// Kubeconfig of the management cluster.
	Kubeconfig string

	// Variables are added to the environment, as NAME=value, for templates and components.
	Variables []string
}

// Clusterctl returns the program, and builds it if required.
func (s Source) Clusterctl(ctx context.Context, config, kubeconfig string) (Clusterctl, error) {
	folder, err := binaries.Ensure(ctx, s.Root, binaries.ClusterAPI(), s.progress())
	if err != nil {
		return Clusterctl{}, err
	}
	return Clusterctl{Path: filepath.Join(folder, "clusterctl"), Config: config, Kubeconfig: kubeconfig}, nil
}

// Run runs clusterctl and returns its output. An error quotes its log.
func (c Clusterctl) Run(ctx context.Context, args ...string) (string, error) {
	output, _, err := c.RunWithLog(ctx, args...)
	return output, err
}

// RunWithLog is Run that also returns the log, for commands without output.
func (c Clusterctl) RunWithLog(ctx context.Context, args ...string) (output, log string, err error) {
	command := exec.CommandContext(ctx, c.Path, append(slices.Clone(args), "--config="+c.Config)...)
	command.Env = append(os.Environ(),
		"KUBECONFIG="+c.Kubeconfig,
		// No requests to the release page or the module proxy.
		"CLUSTERCTL_DISABLE_VERSIONCHECK=true",
		"GOPROXY=off",
		// Settings of the user that runs the tests have no effect.
		"HOME="+filepath.Dir(c.Config),
		"XDG_CONFIG_HOME="+filepath.Dir(c.Config),
	)
	command.Env = append(command.Env, c.Variables...)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		err = fmt.Errorf("running clusterctl %v: %w\n%s", args, err, stderr.String())
		return stdout.String(), stderr.String(), err
	}
	return stdout.String(), stderr.String(), nil
}
