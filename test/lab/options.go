package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/version"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/network"
)

// MaxHosts is the maximum number of hosts of a lab. It follows from the address plan.
const MaxHosts = 70

// Options configures a lab.
type Options struct {
	// Name is unique among the labs that run concurrently: 1 to 12 lower-case letters, digits and "-". Required.
	Name string

	// Hosts is the initial number of hosts. Lab.AddHosts adds more.
	Hosts int

	// Machines is the maximum number of machines that run an operating system at once, including the management machine.
	// Start returns an error if there is not enough memory for them. Zero means all: the hosts and the management machine.
	Machines int

	// Release is the folder of a release of this provider, written by make release-manifests. Defaults to the newest
	// release in out/release of the checkout.
	Release string

	// Later builds a second manager of a later version, for Lab.Upgrade and Lab.ManagerImages.
	Later bool

	// EarlierKubernetes also serves node images by Kubernetes version: that of binaries.KubernetesVersion, and that of
	// binaries.EarlierKubernetesVersion. VersionedNodeImage returns their names.
	EarlierKubernetes bool

	// Artefacts is the folder for objects, logs and consoles that explain a failure. Defaults to out/lab/<name> of the
	// checkout. Start writes it when it fails, and so does Lab.CollectArtefacts.
	Artefacts string

	// Progress reports each step. Nil discards the reports.
	Progress Progress
}

// complete sets the defaults. It returns an error if the options are invalid.
func (o Options) complete(checkout string) (Options, error) {
	if err := network.CheckLab(o.Name); err != nil {
		return o, err
	}
	if o.Hosts < 0 || o.Hosts > MaxHosts {
		return o, fmt.Errorf("the lab cannot have %d hosts: use 0 to %d", o.Hosts, MaxHosts)
	}
	if o.Machines < 0 {
		return o, fmt.Errorf("%d machines cannot run: use 0 for all, or the maximum number that runs at once", o.Machines)
	}
	if o.Machines == 0 {
		o.Machines = 1 + o.Hosts
	}
	if o.Progress == nil {
		o.Progress = func(string, ...any) {}
	}
	if o.Artefacts == "" {
		o.Artefacts = filepath.Join(checkout, "out", "lab", o.Name)
	}
	if o.Release == "" {
		newest, err := newestRelease(filepath.Join(checkout, "out", "release"))
		if err != nil {
			return o, err
		}
		o.Release = newest
	}
	if _, err := os.Stat(filepath.Join(o.Release, componentsFile)); err != nil {
		return o, fmt.Errorf("looking for a release (make release-manifests writes one to out/release): %w", err)
	}
	return o, nil
}

func newestRelease(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	var newest *version.Version
	name := ""
	for _, entry := range entries {
		found, err := version.ParseSemantic(entry.Name())
		if err == nil && (newest == nil || newest.LessThan(found)) {
			newest, name = found, entry.Name()
		}
	}
	if newest == nil {
		return "", fmt.Errorf("%s holds no release: run make release-manifests", folder)
	}
	return filepath.Join(folder, name), nil
}
