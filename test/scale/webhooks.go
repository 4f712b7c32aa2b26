package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// serviceNamespace is the namespace of the Service of the webhooks before the installation sets it.
const serviceNamespace = "system"

// installWebhookPatches applies the patches of the installation to the generated webhooks. Their match conditions are
// evaluated for every write, so they affect the measurement.
func installWebhookPatches(ctx context.Context, server *env.Server) error {
	patches, err := filepath.Glob(filepath.Join(server.Root(), "config", "webhook", "*_webhook_patch.yaml"))
	if err != nil {
		return err
	}
	for _, path := range patches {
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		patch, err := yaml.YAMLToJSON(content)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", path, err)
		}
		configuration := &unstructured.Unstructured{}
		if err := configuration.UnmarshalJSON(patch); err != nil {
			return fmt.Errorf("parsing %s: %w", path, err)
		}
		// The API server merges lists by the same keys as kustomize.
		err = server.Client.Patch(ctx, configuration, client.RawPatch(types.StrategicMergePatchType, patch))
		if err != nil {
			return err
		}
	}
	return server.RedirectWebhooks(ctx, serviceNamespace, server.Webhook)
}
