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
	hostOperatorModule   = "github.com/metal3-io/baremetal-operator"
	hostOperatorAPI      = hostOperatorModule + "/apis"
)

// CertManagerVersion is the cert-manager whose definitions are used.
const CertManagerVersion = "v1.21.2"

// module is what the go command says about a module.
type module struct {
	Path    string
	Version string
	Dir     string
	Error   string
}

// required finds a module that the go.mod of the checkout requires, downloading it when the module cache lacks it.
func (s Source) required(ctx context.Context, path string) (module, error) {
	return requiredBy(ctx, s.Root, path)
}

// requiredBy finds a module that the go.mod of a folder requires, as required does.
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

// download finds a module of any version in the module cache, downloading it first when it is not there.
func download(ctx context.Context, path, version string) (string, error) {
	// Outside the checkout, so that neither its go.mod nor its go.sum takes part.
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
