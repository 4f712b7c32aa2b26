// Package components finds the files that are installed into a management cluster: the CRDs and manifests that tests
// require, and the components of a clusterctl repository.
//
// The repository contains no files of other projects. The Go modules of Cluster API, cert-manager, the address managers
// and the Baremetal Operator (BMO) contain them. This package sets the labels of an installed product.
//
// All versions are pinned by a go.mod or a constant of this package.
package components

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// Group is a set of CRDs of one project.
type Group string

// Values of Group.
const (
	// Provider is this provider: infrastructure.cluster.x-k8s.io.
	Provider Group = "provider"

	// ClusterAPI is the core of Cluster API with its kubeadm bootstrap and control-plane providers.
	ClusterAPI Group = "cluster-api"

	// ClusterAPICore is ClusterAPI without the kubeadm providers.
	ClusterAPICore Group = "cluster-api-core"

	// BaremetalOperator is the Baremetal Operator (BMO): metal3.io.
	BaremetalOperator Group = "baremetal-operator"

	// AddressManager is the IP address manager: ipam.metal3.io.
	AddressManager Group = "address-manager"

	// InClusterAddressManager is the in-cluster provider of Cluster API's IPAM contract: InClusterIPPool and others.
	InClusterAddressManager Group = "in-cluster-address-manager"

	// CertManager is cert-manager. Only clusterctl requires it.
	CertManager Group = "cert-manager"
)

// Source is the checkout with the components.
type Source struct {
	// Root is the top of the checkout.
	Root string

	// Progress gets messages while something is built. Nil discards them.
	Progress io.Writer
}

func (s Source) progress() io.Writer {
	if s.Progress == nil {
		return io.Discard
	}
	return s.Progress
}

// Definitions returns the CRDs of the groups, with the labels that clusterctl sets, and without conversion webhooks.
func (s Source) Definitions(ctx context.Context, groups ...Group) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	found := make([][]*apiextensionsv1.CustomResourceDefinition, len(groups))
	work, ctx := errgroup.WithContext(ctx)
	for i, group := range groups {
		work.Go(func() error {
			folders, err := s.folders(ctx, group)
			if err != nil {
				return fmt.Errorf("finding the custom resource definitions of %s: %w", group, err)
			}
			for _, folder := range folders {
				definitions, err := readFolder(folder)
				if err != nil {
					return err
				}
				found[i] = append(found[i], definitions...)
			}
			for _, definition := range found[i] {
				setLabels(group, definition)
			}
			return nil
		})
	}
	if err := work.Wait(); err != nil {
		return nil, err
	}
	var all []*apiextensionsv1.CustomResourceDefinition
	for _, definitions := range found {
		all = append(all, definitions...)
	}
	return all, nil
}

func (s Source) folders(ctx context.Context, group Group) ([]string, error) {
	switch group {
	case Provider:
		return []string{filepath.Join(s.Root, "config", "crd", "bases")}, nil
	case ClusterAPI:
		return s.moduleFolders(ctx, clusterAPIModule,
			"core/config/crd/bases", "bootstrap/kubeadm/config/crd/bases", "controlplane/kubeadm/config/crd/bases")
	case ClusterAPICore:
		return s.moduleFolders(ctx, clusterAPIModule, "core/config/crd/bases")
	case BaremetalOperator:
		folder, err := s.BaremetalOperator(ctx)
		if err != nil {
			return nil, err
		}
		return []string{filepath.Join(folder, "config", "base", "crds", "bases")}, nil
	case AddressManager, InClusterAddressManager:
		found, err := s.addressModule(ctx, group)
		if err != nil {
			return nil, err
		}
		return []string{filepath.Join(found.Dir, "config", "crd", "bases")}, nil
	case CertManager:
		folder, err := download(ctx, certManagerModule, CertManagerVersion)
		if err != nil {
			return nil, err
		}
		return []string{filepath.Join(folder, "deploy", "crds")}, nil
	default:
		return nil, fmt.Errorf("unknown group %q", group)
	}
}

// BaremetalOperator returns the folder of the module of the Baremetal Operator (BMO), at the version of its API that
// the checkout requires.
func (s Source) BaremetalOperator(ctx context.Context) (string, error) {
	api, err := s.required(ctx, bmoAPI)
	if err != nil {
		return "", err
	}
	return download(ctx, bmoModule, api.Version)
}

// EarlierBaremetalOperator finds the folder of the module of the BMO to upgrade from.
func (s Source) EarlierBaremetalOperator(ctx context.Context) (string, error) {
	folder := filepath.Join(s.Root, "hack", binaries.EarlierBaremetalOperator().Name)
	found, err := requiredBy(ctx, folder, bmoModule)
	return found.Dir, err
}

func (s Source) moduleFolders(ctx context.Context, module string, folders ...string) ([]string, error) {
	root, err := s.required(ctx, module)
	if err != nil {
		return nil, err
	}
	joined := make([]string, len(folders))
	for i, folder := range folders {
		joined[i] = filepath.Join(root.Dir, filepath.FromSlash(folder))
	}
	return joined, nil
}

func readFolder(folder string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no custom resource definitions in %s", folder)
	}
	definitions := make([]*apiextensionsv1.CustomResourceDefinition, len(files))
	for i, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		definitions[i] = &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal(content, definitions[i]); err != nil {
			return nil, fmt.Errorf("parsing %s: %w", file, err)
		}
	}
	return definitions, nil
}

// setLabels sets the labels of an installed CRD. The contract labels name the version for each contract of Cluster API.
// The labels of clusterctl mark the kinds to move.
func setLabels(group Group, definition *apiextensionsv1.CustomResourceDefinition) {
	labels := map[string]string{}
	contract := map[string]string{
		clusterv1.GroupVersion.Group + "/v1beta1": "v1beta1",
		clusterv1.GroupVersion.Group + "/v1beta2": "v1beta2",
	}
	switch group {
	case Provider, ClusterAPI, ClusterAPICore:
		labels[clusterctlv1.ClusterctlLabel] = ""
		maps.Copy(labels, contract)
	case AddressManager, InClusterAddressManager:
		labels[clusterctlv1.ClusterctlLabel] = ""
	case BaremetalOperator:
		maps.Copy(labels, moveLabels(definition.Name))
	case CertManager:
	}
	if len(labels) == 0 {
		return
	}
	if definition.Labels == nil {
		definition.Labels = map[string]string{}
	}
	maps.Copy(definition.Labels, labels)
}

// moveLabels returns the labels that a user must set on the CRDs of BMO before a move, because clusterctl does not
// install BMO.
func moveLabels(name string) map[string]string {
	switch name {
	case "baremetalhosts.metal3.io":
		return map[string]string{
			clusterctlv1.ClusterctlLabel:              "",
			clusterctlv1.ClusterctlMoveLabel:          "",
			clusterctlv1.ClusterctlMoveHierarchyLabel: "",
		}
	case "hardwaredata.metal3.io":
		return map[string]string{clusterctlv1.ClusterctlLabel: "", clusterctlv1.ClusterctlMoveLabel: ""}
	default:
		return nil
	}
}
