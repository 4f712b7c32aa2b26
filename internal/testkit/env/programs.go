package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	// assetsVariable names a folder with programs that replace the built ones.
	assetsVariable = "KUBEBUILDER_ASSETS"

	// downloadVariable disables setup-envtest if it is "false".
	downloadVariable = "METAL3_ENVTEST_DOWNLOAD"

	// downloadLimit is the time limit of setup-envtest.
	downloadLimit = 20 * time.Second
)

// programs is a folder with a control plane, and a function that returns a complete one.
type programs struct {
	folder   string
	root     string
	progress io.Writer
}

// findPrograms finds etcd and kube-apiserver: in the folder that the user names; among those that were built
// before; among those that setup-envtest has or downloads; and builds them when all that fails.
func findPrograms(ctx context.Context, root string, options Options) (programs, error) {
	found := programs{root: root, progress: options.Progress}
	if folder := os.Getenv(assetsVariable); folder != "" {
		found.folder = folder
		return found, checkAssets(folder)
	}
	if folder, ok := cached(root); ok {
		found.folder = folder
		return found, nil
	}
	if folder, ok := downloaded(ctx, root, options.Progress); ok {
		found.folder = folder
		return found, nil
	}
	folder, err := binaries.Ensure(ctx, root, binaries.ControlPlane(), options.Progress)
	found.folder = folder
	return found, err
}

// optional returns the path of a program, and builds it if the folder lacks it.
func (p programs) optional(ctx context.Context, name string) (string, error) {
	path := filepath.Join(p.folder, name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	folder, err := binaries.Ensure(ctx, p.root, binaries.ControlPlane(), p.progress)
	if err != nil {
		return "", fmt.Errorf("building %s: %w", name, err)
	}
	return filepath.Join(folder, name), nil
}

func checkAssets(folder string) error {
	for _, name := range []string{"etcd", "kube-apiserver"} {
		_, err := os.Stat(filepath.Join(folder, name))
		if errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%s is %q, which holds no %s; set it to a folder with etcd and kube-apiserver, or unset it to "+
				"use programs that are built here", assetsVariable, folder, name)
		}
		if err != nil {
			return fmt.Errorf("looking into %s: %w", assetsVariable, err)
		}
	}
	return nil
}

// cached returns true if the programs are in the cache. With a context that has ended, Ensure builds nothing.
func cached(root string) (folder string, found bool) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	folder, err := binaries.Ensure(ended, root, binaries.ControlPlane(), io.Discard)
	return folder, err == nil
}

// downloaded calls setup-envtest. After any error, such as a missing network, the programs are built.
func downloaded(ctx context.Context, root string, progress io.Writer) (folder string, found bool) {
	if os.Getenv(downloadVariable) == "false" {
		return "", false
	}
	tools, err := binaries.Ensure(ctx, root, binaries.Tools(), progress)
	if err != nil {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	version := strings.TrimPrefix(binaries.KubernetesVersion, "v")
	version = version[:strings.LastIndex(version, ".")] + ".x"
	fmt.Fprintf(progress, "running setup-envtest for Kubernetes %s (%s=false skips this)\n", version, downloadVariable)
	output, err := exec.CommandContext(ctx, filepath.Join(tools, "setup-envtest"), "use", version, "-p", "path").Output()
	if err != nil {
		fmt.Fprintf(progress, "setup-envtest failed (%v): building the programs\n", err)
		return "", false
	}
	folder = strings.TrimSpace(string(output))
	return folder, checkAssets(folder) == nil
}
