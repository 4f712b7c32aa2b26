package move_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/move/fakeironic"
)

const (
	// bmoNamespace, bmoAccount and bmoManifests are the names in the release.
	bmoNamespace = "baremetal-operator-system"
	bmoAccount   = "baremetal-operator-controller-manager"
	bmoManifests = "config/render/capm3.yaml"

	// noKernel and noRamdisk are the URLs of an agent that no machine boots.
	noKernel  = "http://images.example/kernel"
	noRamdisk = "http://images.example/ramdisk"

	// concurrency is the variable with the number of hosts that BMO reconciles at the same time.
	concurrency = "BMO_CONCURRENCY"

	// ironicWork is the time that the Ironic in memory takes for each operation.
	ironicWork = 30 * time.Millisecond
)

// newIronic starts an Ironic in memory. It ends with the suite.
func newIronic() *fakeironic.Server {
	GinkgoHelper()
	ironic := fakeironic.New()
	ironic.Work, ironic.BoardPassword = ironicWork, goodPassword
	DeferCleanup(ironic.Close)
	return ironic
}

// accessTo returns the endpoint and the credentials of the Ironic for BMO.
func accessTo(ironic *fakeironic.Server) ironicapi.Endpoint {
	return ironicapi.Endpoint{URL: ironic.Endpoint(), Username: ironic.Username, Password: ironic.Password}
}

// bmo is the Baremetal Operator (BMO) as it is released, with its roles and its webhooks, for all namespaces of a side.
type bmo struct {
	side *side

	// ironic is the Ironic of BMO, kernel and ramdisk are those of the agent. A change has an effect at the next start.
	ironic          ironicapi.Endpoint
	kernel, ramdisk string

	// flags are additional arguments from the next start on.
	flags []string

	program, health string
	webhook         env.WebhookServer

	// folder contains the files that BMO reads.
	folder string

	// starts counts the starts, for the names of the logs.
	process *process.Child
	starts  int
}

// newBMO installs BMO, and runs it until the end of the suite.
func newBMO(ctx context.Context, at *side, ironic ironicapi.Endpoint) *bmo {
	GinkgoHelper()
	folder, err := binaries.Ensure(ctx, at.server.Root(), binaries.BaremetalOperator(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	b := &bmo{
		side: at, ironic: ironic, kernel: noKernel, ramdisk: noRamdisk,
		program: filepath.Join(folder, "baremetal-operator"), folder: GinkgoT().TempDir(),
	}
	b.webhook, err = at.server.NewWebhookServer("bmo")
	Expect(err).NotTo(HaveOccurred())
	b.health, err = at.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	installBMO(ctx, at)
	certificates := filepath.Join(b.folder, "k8s-webhook-server")
	Expect(os.Mkdir(certificates, 0o750)).To(Succeed())
	Expect(os.Symlink(b.webhook.CertDir, filepath.Join(certificates, "serving-certs"))).To(Succeed())
	b.start(ctx)
	Expect(at.server.RedirectWebhooks(ctx, bmoNamespace, b.webhook)).To(Succeed())
	return b
}

// start runs BMO with the permissions that it has in a cluster, and waits until its webhooks answer.
func (b *bmo) start(ctx context.Context) {
	GinkgoHelper()
	account, err := b.side.server.User("system:serviceaccount:"+bmoNamespace+":"+bmoAccount, "system:serviceaccounts")
	Expect(err).NotTo(HaveOccurred())
	access := filepath.Join(b.folder, "auth", "ironic")
	Expect(os.MkdirAll(access, 0o750)).To(Succeed())
	authority := filepath.Join(b.folder, "authority.crt")
	for path, content := range map[string][]byte{
		filepath.Join(access, "username"): []byte(b.ironic.Username),
		filepath.Join(access, "password"): []byte(b.ironic.Password),
		authority:                         b.ironic.Authority,
	} {
		Expect(os.WriteFile(path, content, 0o600)).To(Succeed())
	}
	b.starts++
	var settings []string
	if workers := os.Getenv(concurrency); workers != "" {
		settings = append(settings, concurrency+"="+workers)
	}
	b.process, err = b.side.server.Group().Start(process.Program{
		Name: fmt.Sprintf("bmo-%d", b.starts), Path: b.program,
		Args: append([]string{
			"-dev", "-metrics-addr=0", "-health-addr=" + b.health, fmt.Sprintf("-webhook-port=%d", b.webhook.Port),
		}, b.flags...),
		Env: append(settings,
			"KUBECONFIG="+b.side.credentials(account, "bmo"), "TMPDIR="+b.folder, "POD_NAMESPACE="+bmoNamespace,
			"METAL3_AUTH_ROOT_DIR="+filepath.Dir(access), "IRONIC_ENDPOINT="+b.ironic.URL,
			"IRONIC_CACERT_FILE="+authority,
			"DEPLOY_KERNEL_URL="+b.kernel, "DEPLOY_RAMDISK_URL="+b.ramdisk,
		),
	})
	Expect(err).NotTo(HaveOccurred())
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	ready := func(ctx context.Context) error { return managers.Probe(ctx, "http://"+b.health+"/readyz") }
	Expect(b.process.WaitReady(limited, ready)).To(Succeed())
}

// restart kills BMO, and starts it again.
func (b *bmo) restart(ctx context.Context) {
	GinkgoHelper()
	b.lose(ctx, 0)
}

// lose kills BMO, and starts it again after a while.
func (b *bmo) lose(ctx context.Context, away time.Duration) {
	GinkgoHelper()
	b.process.Kill()
	pass(ctx, away)
	b.start(ctx)
}

// installBMO installs the released manifests, except for the CRDs, which exist, and objects that only pods require.
func installBMO(ctx context.Context, at *side) {
	GinkgoHelper()
	Expect(at.client.Create(ctx, build.Namespace(bmoNamespace))).To(Succeed())
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
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding",
			"ValidatingWebhookConfiguration":
			Expect(at.client.Create(ctx, object)).To(Succeed(), "%s %s", object.GetKind(), object.GetName())
		}
	}
}
