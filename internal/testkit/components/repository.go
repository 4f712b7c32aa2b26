package components

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	folderMode = 0o750
	fileMode   = 0o600

	// defaultConfig is the folder with the components in the module of an address manager.
	defaultConfig = "config/default"
)

// Repository is the content of a local clusterctl repository besides Cluster API and cert-manager.
type Repository struct {
	// Folder to write into. It may exist. Files of the same name are replaced.
	Folder string

	// Release is the folder of a release of this provider. Its name is the version. Empty omits the provider.
	Release string

	// Earlier are folders of earlier releases under the name of this provider, including those of CAPM3.
	Earlier []string

	// AddressManager adds the IP address manager.
	AddressManager bool

	// PatientLeases keeps the leases of leader election for a minute. A manager that waits for a processor otherwise ends
	// after ten seconds, and starts again, which needs more of the processor.
	PatientLeases bool
}

// The times of PatientLeases in seconds.
const (
	LeaseSeconds = "60"
	RenewSeconds = "50"
	RetrySeconds = "8"
)

// elected matches the argument of a manager with leader election, which is off by default.
var elected = regexp.MustCompile(`(?m)^( *- )"?--leader-elect"?$`)

// write writes a file of a provider.
func (r Repository) write(path string, content []byte) error {
	if r.PatientLeases {
		content = elected.ReplaceAll(content, []byte("${0}\n${1}--leader-elect-lease-duration="+LeaseSeconds+"s\n"+
			"${1}--leader-elect-renew-deadline="+RenewSeconds+"s\n${1}--leader-elect-retry-period="+RetrySeconds+"s"))
	}
	return os.WriteFile(path, content, fileMode)
}

// entry is a provider in a clusterctl.yaml.
type entry struct {
	Name string                    `json:"name"`
	Type clusterctlv1.ProviderType `json:"type"`
	URL  string                    `json:"url"`
}

// configuration is a clusterctl.yaml.
type configuration struct {
	Providers   []entry     `json:"providers"`
	CertManager certManager `json:"cert-manager"`
}

type certManager struct {
	URL     string `json:"url"`
	Version string `json:"version"`
}

// provider is a provider that kustomize builds from the config folder of a Go module.
type provider struct {
	name    string
	kind    clusterctlv1.ProviderType
	config  string
	file    string
	image   string
	release string
}

func clusterAPIProviders() []provider {
	const development, released = "gcr.io/k8s-staging-cluster-api/", "registry.k8s.io/cluster-api/"
	return []provider{
		{
			name: "cluster-api", kind: clusterctlv1.CoreProviderType, config: "core/config/default",
			file:  "core-components.yaml",
			image: development + "cluster-api-controller:main", release: released + "cluster-api-controller",
		},
		{
			name: "kubeadm", kind: clusterctlv1.BootstrapProviderType, config: "bootstrap/kubeadm/config/default",
			file:  "bootstrap-components.yaml",
			image: development + "kubeadm-bootstrap-controller:main", release: released + "kubeadm-bootstrap-controller",
		},
		{
			name: "kubeadm", kind: clusterctlv1.ControlPlaneProviderType, config: "controlplane/kubeadm/config/default",
			file:  "control-plane-components.yaml",
			image: development + "kubeadm-control-plane-controller:main", release: released + "kubeadm-control-plane-controller",
		},
	}
}

func addressManagerProvider() provider {
	return provider{
		name: "metal3", kind: clusterctlv1.IPAMProviderType, config: defaultConfig, file: "ipam-components.yaml",
		image: "quay.io/metal3-io/ip-address-manager:main", release: "quay.io/metal3-io/ip-address-manager",
	}
}

// WriteRepository writes a clusterctl repository that requires no network, and returns the path of its clusterctl.yaml.
//
// Its cert-manager has only the namespace and the CRDs, which clusterctl requires of an API server without pods. For a
// cluster with pods, install cert-manager first: clusterctl then does not install its own.
func (s Source) WriteRepository(ctx context.Context, repository Repository) (string, error) {
	folder, err := filepath.Abs(repository.Folder)
	if err != nil {
		return "", err
	}
	repository.Folder = folder
	var config configuration
	if config.CertManager, err = s.writeCertManager(ctx, folder); err != nil {
		return "", fmt.Errorf("writing cert-manager: %w", err)
	}
	if config.Providers, err = s.writeProviders(ctx, repository); err != nil {
		return "", err
	}
	if repository.Release != "" {
		added, err := repository.copyRelease(repository.Release)
		if err != nil {
			return "", fmt.Errorf("copying the release: %w", err)
		}
		config.Providers = append(config.Providers, added)
	}
	for _, earlier := range repository.Earlier {
		if _, err := repository.copyRelease(earlier); err != nil {
			return "", fmt.Errorf("copying the release: %w", err)
		}
	}
	content, err := yaml.Marshal(config)
	if err != nil {
		return "", err
	}
	path := filepath.Join(folder, "clusterctl.yaml")
	return path, os.WriteFile(path, content, fileMode)
}

func (s Source) writeProviders(ctx context.Context, repository Repository) ([]entry, error) {
	clusterAPI, err := s.required(ctx, clusterAPIModule)
	if err != nil {
		return nil, err
	}
	kustomize, err := s.kustomize(ctx)
	if err != nil {
		return nil, err
	}
	providers := clusterAPIProviders()
	modules := []module{clusterAPI, clusterAPI, clusterAPI}
	if repository.AddressManager {
		found, err := s.addressManager(ctx)
		if err != nil {
			return nil, err
		}
		providers, modules = append(providers, addressManagerProvider()), append(modules, found)
	}
	entries := make([]entry, len(providers))
	work, ctx := errgroup.WithContext(ctx)
	for i, provider := range providers {
		work.Go(func() error {
			var err error
			if entries[i], err = provider.write(ctx, kustomize, repository, modules[i]); err != nil {
				return fmt.Errorf("writing %s: %w", provider.label(), err)
			}
			return nil
		})
	}
	return entries, work.Wait()
}

// addressManager is the module beside the API module that the checkout requires; both have the same versions.
func (s Source) addressManager(ctx context.Context) (module, error) {
	found, err := s.required(ctx, addressManagerAPI)
	if err != nil {
		return module{}, err
	}
	folder, err := download(ctx, addressManagerModule, found.Version)
	return module{Path: addressManagerModule, Version: found.Version, Dir: folder}, err
}

// inClusterAddressManager is the module that is pinned for the tests.
func (s Source) inClusterAddressManager(ctx context.Context) (module, error) {
	return requiredBy(ctx, filepath.Join(s.Root, "hack", binaries.InClusterAddressManager().Name), inClusterModule)
}

// AddressManagerImage is the container image in the components of the IP address manager.
func (s Source) AddressManagerImage(ctx context.Context) (string, error) {
	found, err := s.required(ctx, addressManagerAPI)
	return addressManagerProvider().release + ":" + found.Version, err
}

func (s Source) kustomize(ctx context.Context) (string, error) {
	tools, err := binaries.Ensure(ctx, s.Root, binaries.Tools(), s.progress())
	return filepath.Join(tools, "kustomize"), err
}

// build builds the manifests in a folder.
func build(ctx context.Context, kustomize, folder string) ([]byte, error) {
	command := exec.CommandContext(ctx, kustomize, "build", folder)
	var stdout, stderr bytes.Buffer
	command.Stdout, command.Stderr = &stdout, &stderr
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("building %s: %w\n%s", folder, err, stderr.String())
	}
	return stdout.Bytes(), nil
}

func (p provider) label() string { return clusterctlv1.ManifestLabel(p.name, p.kind) }

// write builds the components of a provider, and copies the metadata of its module.
func (p provider) write(ctx context.Context, kustomize string, to Repository, from module) (entry, error) {
	target := filepath.Join(to.Folder, p.label(), from.Version)
	if err := os.MkdirAll(target, folderMode); err != nil {
		return entry{}, err
	}
	built, err := build(ctx, kustomize, filepath.Join(from.Dir, filepath.FromSlash(p.config)))
	if err != nil {
		return entry{}, err
	}
	content := string(built)
	if !strings.Contains(content, p.image) {
		return entry{}, fmt.Errorf("%s does not use the image %s, so it cannot be replaced by the released one",
			p.config, p.image)
	}
	content = strings.ReplaceAll(content, p.image, p.release+":"+from.Version)
	content = strings.ReplaceAll(content, "imagePullPolicy: Always", "imagePullPolicy: IfNotPresent")
	components := filepath.Join(target, p.file)
	if err := to.write(components, []byte(content)); err != nil {
		return entry{}, err
	}
	err = to.copyFile(filepath.Join(from.Dir, "metadata.yaml"), filepath.Join(target, "metadata.yaml"))
	return entry{Name: p.name, Type: p.kind, URL: "file://" + components}, err
}

func (s Source) writeCertManager(ctx context.Context, folder string) (certManager, error) {
	definitions, err := s.Definitions(ctx, CertManager)
	if err != nil {
		return certManager{}, err
	}
	content := bytes.NewBufferString("apiVersion: v1\nkind: Namespace\nmetadata:\n  name: cert-manager\n")
	for _, definition := range definitions {
		encoded, err := yaml.Marshal(definition)
		if err != nil {
			return certManager{}, err
		}
		content.WriteString("---\n")
		content.Write(encoded)
	}
	target := filepath.Join(folder, "cert-manager", CertManagerVersion)
	if err := os.MkdirAll(target, folderMode); err != nil {
		return certManager{}, err
	}
	path := filepath.Join(target, "cert-manager.yaml")
	return certManager{URL: "file://" + path, Version: CertManagerVersion}, os.WriteFile(path, content.Bytes(), fileMode)
}

func (r Repository) copyRelease(release string) (entry, error) {
	const components = "infrastructure-components.yaml"
	release, err := filepath.Abs(release)
	if err != nil {
		return entry{}, err
	}
	if _, err := os.Stat(filepath.Join(release, components)); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return entry{}, fmt.Errorf("%s holds no %s; make release-manifests writes it: %w", release, components, err)
		}
		return entry{}, err
	}
	files, err := filepath.Glob(filepath.Join(release, "*.yaml"))
	if err != nil {
		return entry{}, err
	}
	kind := clusterctlv1.InfrastructureProviderType
	target := filepath.Join(r.Folder, clusterctlv1.ManifestLabel("metal3", kind), filepath.Base(release))
	if err := os.MkdirAll(target, folderMode); err != nil {
		return entry{}, err
	}
	for _, file := range files {
		if err := r.copyFile(file, filepath.Join(target, filepath.Base(file))); err != nil {
			return entry{}, err
		}
	}
	return entry{Name: "metal3", Type: kind, URL: "file://" + filepath.Join(target, components)}, nil
}

func (r Repository) copyFile(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return r.write(to, content)
}
