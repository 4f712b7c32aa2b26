package managers

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// Install creates the manifests of a provider, except for CRDs and objects that only pods require.
func Install(ctx context.Context, server *env.Server, manifests []unstructured.Unstructured) error {
	for i := range manifests {
		switch object := &manifests[i]; object.GetKind() {
		case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding", "Deployment",
			"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration":
			if err := server.Client.Create(ctx, object); err != nil {
				return fmt.Errorf("installing %s %s: %w", object.GetKind(), object.GetName(), err)
			}
		}
	}
	return nil
}
