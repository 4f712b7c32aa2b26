package clusterapi_test

import (
	"bytes"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cluster-api/util/yaml"
)

// classOf returns the ClusterClass of the release with the nodes of a template. The class leaves the address of the
// API server to the user.
func classOf(release string, template []byte) []byte {
	GinkgoHelper()
	content, err := os.ReadFile(filepath.Join(release, "clusterclass-metal3.yaml"))
	Expect(err).NotTo(HaveOccurred())
	class, err := yaml.ToUnstructured(content)
	Expect(err).NotTo(HaveOccurred())
	nodes, err := yaml.ToUnstructured(template)
	Expect(err).NotTo(HaveOccurred())
	controlPlane := field(nodes, "KubeadmControlPlane", "spec", "kubeadmConfigSpec")
	workers := field(nodes, "KubeadmConfigTemplate", "spec", "template", "spec")
	for i := range class {
		switch class[i].GetKind() {
		case "KubeadmControlPlaneTemplate":
			err = unstructured.SetNestedMap(class[i].Object, controlPlane, "spec", "template", "spec", "kubeadmConfigSpec")
		case "KubeadmConfigTemplate":
			err = unstructured.SetNestedMap(class[i].Object, workers, "spec", "template", "spec")
		}
		Expect(err).NotTo(HaveOccurred())
	}
	joined, err := yaml.FromUnstructured(class)
	Expect(err).NotTo(HaveOccurred())
	return bytes.TrimSpace(joined)
}

// field returns the value at a path of the only object of a kind.
func field(objects []unstructured.Unstructured, kind string, path ...string) (value map[string]any) {
	GinkgoHelper()
	for _, object := range objects {
		if object.GetKind() == kind {
			var err error
			value, _, err = unstructured.NestedMap(object.Object, path...)
			Expect(err).NotTo(HaveOccurred())
		}
	}
	Expect(value).NotTo(BeEmpty(), "%s %v", kind, path)
	return value
}
