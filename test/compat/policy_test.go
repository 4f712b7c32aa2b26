package compat_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

const (
	clusterOfTenant = `
apiVersion: infrastructure.cluster.x-k8s.io/v1beta2
kind: Metal3Cluster
metadata: {name: mine}
spec:
  controlPlaneEndpoint: {host: 192.0.2.10, port: 6443}
`
	endpointOfTenant = `{"endpoint": {"virtualIPs": ["172.22.0.2"], "cidrs": ["172.22.0.0/24"], "interface": "provisioning"}}`
)

// hiddenIronic returns a v1beta1 Metal3Cluster, which has no spec.ironic. The conversion restores the field from the
// annotation.
func hiddenIronic(ironic string) string {
	return strings.Replace(strings.Replace(clusterOfTenant, "v1beta2", "v1beta1", 1), "{name: mine}", `
  name: mine
  annotations:
    cluster.x-k8s.io/conversion-data: '{"spec": {"ironic": `+ironic+"}}'", 1)
}

// create returns the error of the API server for a new object.
func create(t *testing.T, server *env.Server, namespace, text string) error {
	t.Helper()
	_, err := server.KubectlWithInput(t.Context(), strings.NewReader(text), "create", "--dry-run=server",
		"-n", namespace, "-f", "-")
	return err
}

// TestPolicyForOneEndpoint applies the policy of a document.
func TestPolicyForOneEndpoint(t *testing.T) {
	const tenant = "tenant"
	stored := clusterOfTenant + "  ironic: " + endpointOfTenant
	harmless := strings.Replace(clusterOfTenant, "v1beta2", "v1beta1", 1)
	hidden := hiddenIronic(endpointOfTenant)
	g := NewWithT(t)
	server := startServer(t)
	g.Expect(server.Client.Create(t.Context(), build.Namespace(tenant))).To(Succeed())
	apply(t, server, tenant, policy(t, server))
	attempt := func(namespace, text string) error {
		t.Helper()
		return create(t, server, namespace, text)
	}
	denied := MatchError(ContainSubstring("spec.ironic is permitted in the namespace metal3 only"))
	g.Eventually(func() error { return attempt(tenant, stored) }, startLimit, pollEvery).Should(denied)
	g.Expect(attempt(tenant, hidden)).To(denied, "v1beta1 with the annotation")
	g.Expect(attempt(tenant, harmless)).To(Succeed(), "v1beta1 without the annotation")
	g.Expect(attempt(build.DefaultNamespace, hidden)).To(Succeed(), "in the namespace of the endpoint")
}

// policy returns the example with the ValidatingAdmissionPolicy of the document.
func policy(t *testing.T, server *env.Server) string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(server.Root(), "docs", "spec", "metal3cluster.md"))
	if err != nil {
		t.Fatal(err)
	}
	for part := range strings.SplitSeq(string(page), "```yaml\n") {
		example, _, _ := strings.Cut(part, "```\n")
		if strings.Contains(example, "kind: ValidatingAdmissionPolicy\n") {
			return example
		}
	}
	t.Fatal("docs/spec/metal3cluster.md has no ValidatingAdmissionPolicy")
	return ""
}
