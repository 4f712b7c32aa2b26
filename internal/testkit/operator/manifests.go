package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// manifests is the file of the release.
const manifests = "config/render/capm3.yaml"

// installManifests installs the manifests of the release, except for the CRDs, which exist, and objects that only pods
// require.
func installManifests(ctx context.Context, server *env.Server) error {
	if err := server.Client.Create(ctx, build.Namespace(namespace)); err != nil {
		return err
	}
	module, err := components.Source{Root: server.Root(), Progress: server.Progress()}.BaremetalOperator(ctx)
	if err != nil {
		return err
	}
	content, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(manifests)))
	if err != nil {
		return err
	}
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("parsing %s: %w", manifests, err)
		}
		switch object.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
			"ValidatingWebhookConfiguration":
			if err := server.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
}
