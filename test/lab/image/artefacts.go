package image

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// Artefacts are the paths of the files of a lab. All labs share them: do not write to these paths or below them.
type Artefacts struct {
	// Root is the root file system of a machine. RootKey is its name in an image of an operating system.
	Root, RootKey string

	// Store is the folder of a containerd, /var/lib/containerd on a machine, with the images of every lab.
	Store string

	// Images has the archives of the images in the store, without those of the caller.
	Images string

	// Kubeadm, Kubectl and Clusterctl are programs for this machine, with the versions of the lab.
	Kubeadm, Kubectl, Clusterctl string

	shop workshop
}

// Ensure builds missing artefacts. The first time takes about half an hour on a small machine, most of it for compiling
// Kubernetes. After that it takes milliseconds.
//
// Checkout is the top of the source tree. Extra images, each with a Key, are added to the store. Images that change
// with the code belong into Artefacts.Derive, because they would create a new store each time. Progress gets messages
// if something must be built.
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

// parts builds the parts of root file systems and images. Debian comes first, so that errors of this machine or its
// network show before anything is compiled.
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
