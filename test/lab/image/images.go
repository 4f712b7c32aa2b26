package image

import (
	"context"
	"embed"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	// pauseVersion is the version for kubeadm of binaries.KubernetesVersion, and in the configuration of containerd.
	pauseVersion = "3.10.2"

	// imagesLimit is the time limit of packing.
	imagesLimit = 10 * time.Minute

	// programsFolder has the programs in the images of Kubernetes.
	programsFolder = "/usr/local/bin/"

	// unprivileged is the user of the managers of Cluster API.
	unprivileged = "65532:65532"

	// FewCollections is in the environment of the programs in Go: the machines of a lab share few processors and much
	// memory, and an API server uses an eighth of its time to collect garbage otherwise.
	FewCollections = "GOGC=300"
)

// patientMembers is the environment of etcd. A leader that waits for a processor for a second is not replaced.
func patientMembers() []string {
	return []string{FewCollections, "ETCD_HEARTBEAT_INTERVAL=300", "ETCD_ELECTION_TIMEOUT=3000"}
}

// imageSources are part of the key of the images, because they define their content.
//
//go:embed images.go pack.go layer.go closure.go
var imageSources embed.FS

// stable packs the images of every lab that do not change with this provider, and returns their folder.
func (w workshop) stable(ctx context.Context, parts parts, root, managers string) (string, error) {
	names, err := binaries.Ensure(ctx, w.checkout, binaries.CoreDNS(), w.progress)
	if err != nil {
		return "", fmt.Errorf("building the name server: %w", err)
	}
	sources, err := contentKey(imageSources)
	if err != nil {
		return "", err
	}
	return w.ensure(ctx, step{
		name: "lab-images-" + key(parts.keys(), filepath.Base(root), filepath.Base(names), filepath.Base(managers),
			sources),
		label: "packing container images",
		limit: imagesLimit,
		make: func(ctx context.Context, target string) error {
			kubernetes, err := kubernetesImages(parts, root, binaries.KubernetesVersion)
			if err != nil {
				return err
			}
			images := slices.Concat(kubernetes, sharedImages(parts), []Image{nameServerImage(names)}, managerImages(managers))
			return packAll(ctx, images, target)
		},
	})
}

// packAll packs each image into a file.
func packAll(ctx context.Context, images []Image, folder string) error {
	if err := os.Mkdir(folder, 0o755); err != nil {
		return err
	}
	work, ctx := errgroup.WithContext(ctx)
	work.SetLimit(2)
	for _, image := range images {
		work.Go(func() error {
			if err := ctx.Err(); err != nil {
				return err
			}
			name, _, _ := strings.Cut(path.Base(image.Names[0]), ":")
			return Pack(image, filepath.Join(folder, name+".tar"))
		})
	}
	return work.Wait()
}

// kubernetesImages are those of a release of Kubernetes. The image of kube-proxy also has the programs that kube-proxy
// calls in any of its modes. iptables opens its modules by name, so Programs cannot find them.
func kubernetesImages(parts parts, root, version string) ([]Image, error) {
	tools, err := Programs(root, "nft", "iptables", "iptables-save", "iptables-restore", "ip6tables", "ip6tables-save",
		"ip6tables-restore", "conntrack", "ipset", "/usr/lib/*/xtables/*.so")
	if err != nil {
		return nil, err
	}
	image := func(program, folder string, more ...File) Image {
		return Image{
			Names:       []string{"registry.k8s.io/" + program + ":" + version},
			Files:       append(more, File{Path: programsFolder + program, From: filepath.Join(folder, program)}),
			Environment: []string{FewCollections},
		}
	}
	return []Image{
		image("kube-apiserver", parts.control),
		image("kube-controller-manager", parts.control),
		image("kube-scheduler", parts.kubernetes),
		image("kube-proxy", parts.kubernetes, tools...),
	}, nil
}

// sharedImages are those that all releases of Kubernetes use in a lab.
func sharedImages(parts parts) []Image {
	return []Image{
		{
			Names:       []string{"registry.k8s.io/etcd:" + binaries.EtcdVersion},
			Files:       []File{{Path: programsFolder + "etcd", From: filepath.Join(parts.control, "etcd")}},
			Environment: patientMembers(),
		},
		{
			Names: []string{
				"registry.k8s.io/pause:" + pauseVersion,
				// The image of the pods of the specs of Cluster API.
				"registry.k8s.io/pause:3.10.1",
			},
			Files:      []File{{Path: "/pause", From: filepath.Join(parts.own, "pause")}},
			Entrypoint: []string{"/pause"},
			User:       "65535:65535",
		},
	}
}

func nameServerImage(folder string) Image {
	return Image{
		Names:      []string{"registry.k8s.io/coredns/coredns:" + binaries.CoreDNSVersion},
		Files:      []File{{Path: "/coredns", From: filepath.Join(folder, "coredns")}},
		Entrypoint: []string{"/coredns"},
	}
}

// managerImages are the images in the components of a clusterctl repository.
func managerImages(folder string) []Image {
	manager := func(image, program string) Image {
		return Image{
			Names:       []string{"registry.k8s.io/cluster-api/" + image + ":" + binaries.CAPIVersion},
			Files:       []File{{Path: "/manager", From: filepath.Join(folder, program)}},
			Entrypoint:  []string{"/manager"},
			Environment: []string{FewCollections},
			User:        unprivileged,
		}
	}
	return []Image{
		manager("cluster-api-controller", "core-manager"),
		manager("kubeadm-bootstrap-controller", "bootstrap-manager"),
		manager("kubeadm-control-plane-controller", "control-plane-manager"),
	}
}

// extra packs an additional image of the caller of Ensure.
func (w workshop) extra(ctx context.Context, image Image) (string, error) {
	if image.Key == "" || len(image.Names) == 0 {
		return "", fmt.Errorf("the image %v requires a name, and a key that changes with its content", image.Names)
	}
	sources, err := contentKey(imageSources)
	if err != nil {
		return "", err
	}
	return w.ensure(ctx, step{
		name:  "lab-image-" + key(image.Key, image.Names, image.Entrypoint, image.Environment, image.User, sources) + ".tar",
		label: "packing " + image.Names[0],
		limit: imagesLimit,
		make:  func(_ context.Context, target string) error { return Pack(image, target) },
	})
}
