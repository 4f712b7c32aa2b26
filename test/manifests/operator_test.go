package manifests_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	modules "github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

// TestOperatorFindsIronic compares the ConfigMap for the Baremetal Operator (BMO), and the Secrets in the documents,
// with the manifests of BMO.
func TestOperatorFindsIronic(t *testing.T) {
	module, err := modules.Source{Root: checkout(t)}.BaremetalOperator(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), program(t, binaries.Tools(), "kustomize"), "build",
		filepath.Join(module, "config", "overlays", "basic-auth_tls"))
	theirs := split(t, output(t, build))

	operator := find[appsv1.Deployment](t, theirs, "Deployment", "baremetal-operator-controller-manager")
	ours := find[corev1.ConfigMap](t, overlay(t, "config/ironic/endpoint"), "ConfigMap", "ironic")
	if ours.Namespace != operator.Namespace {
		t.Errorf("the ConfigMap is in namespace %s, and the Baremetal Operator in %s", ours.Namespace, operator.Namespace)
	}
	read := map[string]bool{}
	for _, source := range operator.Spec.Template.Spec.Containers[0].EnvFrom {
		if source.ConfigMapRef != nil {
			read[source.ConfigMapRef.Name] = true
		}
	}
	if !read[ours.Name] {
		t.Errorf("the Baremetal Operator reads the ConfigMaps %v, and ours is %s", read, ours.Name)
	}
	mounted := map[string]bool{}
	for _, volume := range operator.Spec.Template.Spec.Volumes {
		if volume.Secret != nil {
			mounted[volume.Secret.SecretName] = true
		}
	}
	for _, secret := range []string{"ironic-credentials", "ironic-cacert"} {
		if !mounted[secret] {
			t.Errorf("the Baremetal Operator does not mount Secret %s, but %v", secret, mounted)
		}
	}
}
