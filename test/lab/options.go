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

// MaxHosts is how many hosts a lab can have: there are no more addresses in its plan.
const MaxHosts = 70

// Options say what a lab consists of.
type Options struct {
	// Name tells labs apart that run at the same time: 1 to 12 lower-case letters, digits and "-". Required.
	Name string

	// Hosts is how many hosts there are from the beginning. Lab.AddHosts adds more.
	Hosts int

	// Machines is how many machines run an operating system at once at most, the management machine among them. The lab
	// is refused where there is not enough memory for them. Zero means all: the hosts and the management machine.
	Machines int

	// Release is the folder of a release of this provider, as make release-manifests writes it. Empty means the newest
	// one in out/release of the checkout.
	Release string

	// Later builds the manager once more, as one of a later version, for Lab.Upgrade.
	Later bool

	// EarlierKubernetes also serves node images by Kubernetes version: that of binaries.KubernetesVersion, and that of
	// binaries.EarlierKubernetesVersion. VersionedNodeImage returns their names.
	EarlierKubernetes bool

	// Artefacts is the folder that explains a failure: objects, logs, consoles. Empty means out/lab/<name> of the
	// checkout. It is written when Start fails, and by Lab.CollectArtefacts.
	Artefacts string

	// Progress is told what goes on. Nil discards it.
	Progress Progress
}

// complete fills in the defaults and refuses what cannot work.
func (o Options) complete(checkout string) (Options, error) {
	if err := network.CheckLab(o.Name); err != nil {
		return o, err
	}
	if o.Hosts < 0 || o.Hosts > MaxHosts {
		return o, fmt.Errorf("the lab is to have %d hosts: use 0 to %d", o.Hosts, MaxHosts)
	}
	if o.Machines < 0 {
		return o, fmt.Errorf("%d machines are to run: use 0 for all, or how many run at once", o.Machines)
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
