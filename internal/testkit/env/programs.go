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
	// assetsVariable names a folder with programs to use instead of those built here.
	assetsVariable = "KUBEBUILDER_ASSETS"

	// downloadVariable keeps setup-envtest from being tried when it is "false".
	downloadVariable = "METAL3_ENVTEST_DOWNLOAD"

	// downloadLimit is how long setup-envtest may take. Beyond that, building is the better bet.
	downloadLimit = 20 * time.Second
)

// programs is a folder with a control plane and the way to one that is complete.
type programs struct {
	folder   string
	root     string
	progress io.Writer
}

// findPrograms looks for etcd and kube-apiserver: in the folder that the user names; among those that were built
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

// optional finds a program that a folder from elsewhere may lack, and builds it then.
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
			return fmt.Errorf("%s is %q, which holds no %s; name a folder with etcd and kube-apiserver, or unset it to "+
				"use programs that are built here", assetsVariable, folder, name)
		}
		if err != nil {
			return fmt.Errorf("looking into %s: %w", assetsVariable, err)
		}
	}
	return nil
}

// cached says whether the programs were built before. With a context that has ended, Ensure can build nothing and
// returns only what is there.
func cached(root string) (folder string, found bool) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	folder, err := binaries.Ensure(ended, root, binaries.ControlPlane(), io.Discard)
	return folder, err == nil
}

// downloaded asks setup-envtest. Any failure, the lack of a network above all, means that the programs are built.
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
	fmt.Fprintf(progress, "asking setup-envtest for Kubernetes %s (%s=false skips this)\n", version, downloadVariable)
	output, err := exec.CommandContext(ctx, filepath.Join(tools, "setup-envtest"), "use", version, "-p", "path").Output()
	if err != nil {
		fmt.Fprintf(progress, "setup-envtest does not help (%v); building the programs\n", err)
		return "", false
	}
	folder = strings.TrimSpace(string(output))
	return folder, checkAssets(folder) == nil
}
