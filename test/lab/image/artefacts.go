package image

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// Artefacts are the paths of what a lab is made from. All of it is shared between labs: do not write to these paths
// or below them.
type Artefacts struct {
	// Root is the root file system of a machine, and RootKey what the image of an operating system calls it by.
	Root, RootKey string

	// Store is the folder of a containerd, /var/lib/containerd on a machine, with the images that every lab needs.
	Store string

	// Images has the archives that are in the store, other than those of the caller.
	Images string

	// Kubeadm, Kubectl and Clusterctl are programs for this machine, of the versions that the lab runs.
	Kubeadm, Kubectl, Clusterctl string

	shop workshop
}

// Ensure makes what the cache lacks of the artefacts. The first time takes the better part of half an hour on a small
// machine, most of it for compiling Kubernetes; from then on it takes milliseconds.
//
// Checkout is the top of the source tree. Extra images go into the store beside those that Kubernetes and Cluster API
// need; each has a Key. Images that change with the code are for Artefacts.Derive instead, as they would make a new
// store each time. Progress is written for people; nothing is written when nothing has to be made.
func Ensure(ctx context.Context, checkout string, progress io.Writer, extra ...Image) (Artefacts, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return Artefacts{}, err
	}
	shop := workshop{cache: cache, checkout: checkout, progress: progress}
	if err := shop.checkMachine(); err != nil {
		return Artefacts{}, err
	}
	parts, err := shop.parts(ctx)
	if err != nil {
		return Artefacts{}, err
	}
	managers, err := binaries.Ensure(ctx, checkout, binaries.ClusterAPI(), progress)
	if err != nil {
		return Artefacts{}, fmt.Errorf("building Cluster API: %w", err)
	}
	artefacts := Artefacts{
		Kubeadm:    filepath.Join(parts.kubernetes, "kubeadm"),
		Kubectl:    filepath.Join(parts.control, "kubectl"),
		Clusterctl: filepath.Join(managers, "clusterctl"),
		shop:       shop,
	}
	if artefacts.Root, err = shop.root(ctx, parts); err != nil {
		return Artefacts{}, err
	}
	artefacts.RootKey = strings.TrimPrefix(filepath.Base(artefacts.Root), rootPrefix)
	if artefacts.Images, err = shop.stable(ctx, parts, artefacts.Root, managers); err != nil {
		return Artefacts{}, err
	}
	archives := make([]string, len(extra))
	for i, image := range extra {
		if archives[i], err = shop.extra(ctx, image); err != nil {
			return Artefacts{}, err
		}
	}
	artefacts.Store, err = shop.store(ctx, artefacts.Root, artefacts.Images, archives)
	return artefacts, err
}

// parts makes what root file systems and images are put together from. Debian comes first: what is wrong with this
// machine or its network shows before anything is compiled.
func (w workshop) parts(ctx context.Context) (parts, error) {
	var found parts
	var err error
	if found.debian, err = w.debian(ctx); err != nil {
		return parts{}, err
	}
	if found.kubernetes, err = binaries.Ensure(ctx, w.checkout, binaries.Nodes(), w.progress); err != nil {
		return parts{}, fmt.Errorf("building the programs of a node: %w", err)
	}
	if found.control, err = binaries.Ensure(ctx, w.checkout, binaries.ControlPlane(), w.progress); err != nil {
		return parts{}, fmt.Errorf("building the control plane: %w", err)
	}
	found.own, err = w.ownPrograms(ctx)
	return found, err
}
