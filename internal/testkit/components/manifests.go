package components

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/cmd/clusterctl/client/yamlprocessor"
	utilyaml "sigs.k8s.io/cluster-api/util/yaml"
)

// OperatorManifests returns the released manifests in a module of BMO, without the CRDs.
func OperatorManifests(module string) ([]unstructured.Unstructured, error) {
	const manifests = "config/render/capm3.yaml"
	content, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(manifests)))
	if err != nil {
		return nil, err
	}
	objects, err := withoutDefinitions(content)
	if err != nil {
		return nil, fmt.Errorf("parsing %s of BMO: %w", manifests, err)
	}
	return objects, nil
}

// AddressManifests returns the components of an address manager, without the CRDs. Its variables have their defaults.
func (s Source) AddressManifests(ctx context.Context, group Group) ([]unstructured.Unstructured, error) {
	from, err := s.addressModule(ctx, group)
	if err != nil {
		return nil, err
	}
	kustomize, err := s.kustomize(ctx)
	if err != nil {
		return nil, err
	}
	content, err := build(ctx, kustomize, filepath.Join(from.Dir, filepath.FromSlash(defaultConfig)))
	if err != nil {
		return nil, err
	}
	content, err = yamlprocessor.NewSimpleProcessor().Process(content, func(name string) (string, error) {
		return "", fmt.Errorf("variable %s of %s is not set", name, group)
	})
	if err != nil {
		return nil, err
	}
	objects, err := withoutDefinitions(content)
	if err != nil {
		return nil, fmt.Errorf("parsing the components of %s: %w", group, err)
	}
	return objects, nil
}

// addressModule returns the module of an address manager.
func (s Source) addressModule(ctx context.Context, group Group) (module, error) {
	switch group {
	case AddressManager:
		return s.addressManager(ctx)
	case InClusterAddressManager:
		return s.inClusterAddressManager(ctx)
	case Provider, ClusterAPI, ClusterAPICore, BaremetalOperator, CertManager:
	}
	return module{}, errors.New(string(group) + " is not an address manager")
}

func withoutDefinitions(content []byte) ([]unstructured.Unstructured, error) {
	objects, err := utilyaml.ToUnstructured(content)
	return slices.DeleteFunc(objects, func(object unstructured.Unstructured) bool {
		return object.GetKind() == "CustomResourceDefinition"
	}), err
}
