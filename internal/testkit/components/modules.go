package components

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
)

const (
	clusterAPIModule     = "sigs.k8s.io/cluster-api"
	certManagerModule    = "github.com/cert-manager/cert-manager"
	addressManagerModule = "github.com/metal3-io/ip-address-manager"
	addressManagerAPI    = addressManagerModule + "/api"
	inClusterModule      = "sigs.k8s.io/cluster-api-ipam-provider-in-cluster"
	bmoModule            = "github.com/metal3-io/baremetal-operator"
	bmoAPI               = bmoModule + "/apis"
)

// CertManagerVersion is the version of cert-manager whose CRDs are used.
const CertManagerVersion = "v1.21.2"

// module is the output of the go command for a module.
type module struct {
	Path    string
	Version string
	Dir     string
	Error   string
}

// required returns a module that the go.mod of the checkout requires, and downloads it if the module cache lacks it.
func (s Source) required(ctx context.Context, path string) (module, error) {
	return requiredBy(ctx, s.Root, path)
}

// requiredBy returns a module that the go.mod of a folder requires, like required.
func requiredBy(ctx context.Context, folder, path string) (module, error) {
	output, err := goCommand(ctx, folder, "list", "-m", "-json", path)
	if err != nil {
		return module{}, err
	}
	var found module
	if err := json.Unmarshal(output, &found); err != nil {
		return module{}, fmt.Errorf("parsing the answer of go list about %s: %w", path, err)
	}
	if found.Dir == "" {
		found.Dir, err = download(ctx, path, found.Version)
	}
	return found, err
}

// download returns a module of any version from the module cache, and downloads it if required.
func download(ctx context.Context, path, version string) (string, error) {
	// Outside of the checkout, so that its go.mod and go.sum have no effect.
	output, err := goCommand(ctx, os.TempDir(), "mod", "download", "-json", path+"@"+version)
	var found module
	if parse := json.Unmarshal(output, &found); parse == nil && found.Error != "" {
		return "", fmt.Errorf("downloading %s@%s: %s", path, version, found.Error)
	}
	if err != nil {
		return "", err
	}
	if found.Dir == "" {
		return "", fmt.Errorf("downloading %s@%s: the go command names no folder", path, version)
	}
	return found.Dir, nil
}

func goCommand(ctx context.Context, folder string, args ...string) ([]byte, error) {
	command := exec.CommandContext(ctx, "go", args...)
	command.Dir = folder
	command.Env = append(os.Environ(), "GOWORK=off")
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return stdout.Bytes(), fmt.Errorf("running %v: %w\n%s", command.Args, err, stderr.String())
	}
	return stdout.Bytes(), nil
}
