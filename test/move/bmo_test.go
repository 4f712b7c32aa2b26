package move_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/fakeironic"
)

const (
	// bmoNamespace, bmoAccount and bmoManifests are those of the release.
	bmoNamespace = "baremetal-operator-system"
	bmoAccount   = "baremetal-operator-controller-manager"
	bmoManifests = "config/render/capm3.yaml"

	// redfishSystems is the URL of BMCs that only the Ironic in memory reaches.
	redfishSystems = "http://bmc.example/redfish/v1/Systems/"
)

// bmo is the Baremetal Operator (BMO) as it is released, with its roles and its webhooks, for all namespaces of a side.
type bmo struct {
	side    *side
	process *process.Child
}

// openWithBMO starts the clusters with BMO in both, and one Ironic that both talk to.
func (c *clusters) openWithBMO(ctx context.Context) {
	GinkgoHelper()
	c.open(ctx)
	c.ironic = newIronic()
	folder, err := binaries.Ensure(ctx, c.source.server.Root(), binaries.BaremetalOperator(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	program := filepath.Join(folder, "baremetal-operator")
	together(
		func() { c.source.bmo = startBMO(ctx, c.source, c.ironic, program) },
		func() { c.target.bmo = startBMO(ctx, c.target, c.ironic, program) },
	)
}

// startBMO installs BMO, runs it until the end of the suite, and waits until its webhooks answer.
func startBMO(ctx context.Context, at *side, ironic *fakeironic.Server, program string) *bmo {
	GinkgoHelper()
	installBMO(ctx, at)
	account, err := at.server.User("system:serviceaccount:"+bmoNamespace+":"+bmoAccount, "system:serviceaccounts")
	Expect(err).NotTo(HaveOccurred())
	webhook, err := at.server.NewWebhookServer("bmo")
	Expect(err).NotTo(HaveOccurred())
	health, err := at.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	folder := GinkgoT().TempDir()
	certificates := filepath.Join(folder, "k8s-webhook-server")
	Expect(os.Mkdir(certificates, 0o750)).To(Succeed())
	Expect(os.Symlink(webhook.CertDir, filepath.Join(certificates, "serving-certs"))).To(Succeed())
	credentials := filepath.Join(folder, "auth", "ironic")
	Expect(os.MkdirAll(credentials, 0o750)).To(Succeed())
	for name, value := range map[string]string{"username": ironic.Username, "password": ironic.Password} {
		Expect(os.WriteFile(filepath.Join(credentials, name), []byte(value), 0o600)).To(Succeed())
	}
	b := &bmo{side: at}
	b.process, err = at.server.Group().Start(process.Program{
		Name: "bmo", Path: program,
		Args: []string{
			"-dev", "-metrics-addr=0", "-health-addr=" + health, fmt.Sprintf("-webhook-port=%d", webhook.Port),
		},
		Env: []string{
			"KUBECONFIG=" + at.credentials(account, "bmo"), "TMPDIR=" + folder, "POD_NAMESPACE=" + bmoNamespace,
			"METAL3_AUTH_ROOT_DIR=" + filepath.Join(folder, "auth"), "IRONIC_ENDPOINT=" + ironic.Endpoint(),
			"DEPLOY_KERNEL_URL=http://images.example/kernel", "DEPLOY_RAMDISK_URL=http://images.example/ramdisk",
		},
	})
	Expect(err).NotTo(HaveOccurred())
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ready := func(ctx context.Context) error { return managers.Probe(ctx, "http://"+health+"/readyz") }
	Expect(b.process.WaitReady(limited, ready)).To(Succeed())
	Expect(at.server.RedirectWebhooks(ctx, bmoNamespace, webhook)).To(Succeed())
	return b
}

// installBMO installs all of the released manifests but the definitions, which are there, and what only pods need.
func installBMO(ctx context.Context, at *side) {
	GinkgoHelper()
	module, err := components.Source{Root: at.server.Root(), Progress: GinkgoWriter}.BaremetalOperator(ctx)
	Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(module, filepath.FromSlash(bmoManifests)))
	Expect(err).NotTo(HaveOccurred())
	documents := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(content), len(content))
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return
		}
		Expect(err).NotTo(HaveOccurred())
		switch object.GetKind() {
		case "Namespace", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
			"ValidatingWebhookConfiguration":
			Expect(at.client.Create(ctx, object)).To(Succeed(), "%s %s", object.GetKind(), object.GetName())
		}
	}
}

// worldOfBMO makes a world in which BMO cares for the hosts.
func (c *clusters) worldOfBMO(ctx context.Context) *world {
	GinkgoHelper()
	// All of these worlds share an Ironic, in which a MAC address belongs to one host.
	place := int(c.worlds.Add(1))
	return &world{
		clusters: c, namespace: stage.Namespace(ctx, c.source.server), here: c.source, there: c.target, ironic: c.ironic,
		protocol: "redfish-virtualmedia+", controllers: redfishSystems, serial: place << 8,
	}
}
