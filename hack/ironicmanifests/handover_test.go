package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/ironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/handover"
)

// read decodes a document of a file in the checkout. Unknown fields are errors.
func read[T any](t *testing.T, name string, index int) T {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root(t), name))
	if err != nil {
		t.Fatal(err)
	}
	var typed T
	if err := yaml.UnmarshalStrict(bytes.Split(content, []byte("\n---\n"))[index], &typed); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return typed
}

// TestHandover requires that the guard mounts the object that the provider may write, and that the role has no other
// object.
func TestHandover(t *testing.T) {
	const file = folder + "/components/keepalived/handover.yaml"
	place := metav1.ObjectMeta{Name: ironic.HandoverConfigMap, Namespace: namespace}
	object := read[corev1.ConfigMap](t, file, 0)
	if handover.Name != object.Name || handover.Namespace != object.Namespace {
		t.Errorf("the provider writes ConfigMap %s of namespace %s", handover.Name, handover.Namespace)
	}
	if diff := cmp.Diff(place, object.ObjectMeta); diff != "" || object.Data != nil {
		t.Errorf("the ConfigMap has data %v, or another name: -want, +got:\n%s", object.Data, diff)
	}
}
