package image

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// Earlier are the paths of what nodes of binaries.EarlierKubernetesVersion are made from. Labs share them as they share
// Artefacts. These nodes use etcd, CoreDNS and the other images of the store of Artefacts.
type Earlier struct {
	// Root is the root file system of a machine, and RootKey its key in the image of an operating system.
	Root, RootKey string

	// Archives are the images of the Kubernetes release.
	Archives []string
}

// Earlier makes what the cache lacks for nodes of the earlier release of Kubernetes. The first call compiles that
// release, which takes minutes.
func (a Artefacts) Earlier(ctx context.Context) (Earlier, error) {
	parts, err := a.shop.parts(ctx)
	if err != nil {
		return Earlier{}, err
	}
	programs, err := binaries.Ensure(ctx, a.shop.checkout, binaries.EarlierNodes(), a.shop.progress)
	if err != nil {
		return Earlier{}, fmt.Errorf("building Kubernetes %s: %w", binaries.EarlierKubernetesVersion, err)
	}
	parts.kubernetes, parts.control = programs, programs
	root, err := a.shop.root(ctx, parts)
	if err != nil {
		return Earlier{}, err
	}
	sources, err := contentKey(imageSources)
	if err != nil {
		return Earlier{}, err
	}
	folder, err := a.shop.ensure(ctx, step{
		name:  "lab-images-" + key(parts.keys(), filepath.Base(root), sources),
		label: "packing container images of Kubernetes " + binaries.EarlierKubernetesVersion,
		limit: imagesLimit,
		make: func(ctx context.Context, target string) error {
			images, err := kubernetesImages(parts, root, binaries.EarlierKubernetesVersion)
			if err != nil {
				return err
			}
			return packAll(ctx, images, target)
		},
	})
	if err != nil {
		return Earlier{}, err
	}
	archives, err := filepath.Glob(filepath.Join(folder, "*.tar"))
	return Earlier{Root: root, RootKey: strings.TrimPrefix(filepath.Base(root), rootPrefix), Archives: archives}, err
}
