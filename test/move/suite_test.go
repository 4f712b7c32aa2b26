package move_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is how long a story waits for something to happen. It is a limit, not an expectation.
	patience = 2 * time.Minute

	// pollEvery is how often it looks.
	pollEvery = 50 * time.Millisecond

	// serviceNamespace is where the Service of the webhooks is before the installation names it.
	serviceNamespace = "system"
)

func TestMove(t *testing.T) {
	klog.SetOutput(GinkgoWriter)
	ctrl.SetLogger(klog.Background())
	RegisterFailHandler(Fail)
	RunSpecs(t, "Moves by clusterctl")
}

// clusters are the two management clusters.
type clusters struct {
	source, target *env.Server
	clusterctl     components.Clusterctl
}

var _ = Describe("A move by clusterctl", Ordered, func() {
	c := &clusters{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		options := env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPI, components.HostOperator,
		}}
		c.source, c.target = stage.Start(ctx, options), stage.Start(ctx, options)
		c.prepare(ctx)
		c.configure(ctx)
		c.run(ctx)
	})

	describeHosts(c)
})

// prepare makes clusterctl ready, with a configuration that names no provider: nothing is installed by it.
func (c *clusters) prepare(ctx context.Context) {
	GinkgoHelper()
	config := filepath.Join(GinkgoT().TempDir(), "clusterctl.yaml")
	Expect(os.WriteFile(config, []byte("providers: []\n"), 0o600)).To(Succeed())
	var err error
	c.clusterctl, err = components.Source{Root: c.source.Root(), Progress: GinkgoWriter}.
		Clusterctl(ctx, config, c.source.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
}

// configure installs the webhooks in the source as they are released, with the address of the manager under test.
func (c *clusters) configure(ctx context.Context) {
	GinkgoHelper()
	folder, err := binaries.Ensure(ctx, c.source.Root(), binaries.Tools(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, filepath.Join(folder, "kustomize"), "build", "config/webhook")
	command.Dir = c.source.Root()
	built, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	Expect(c.source.Client.Create(ctx, build.Namespace(serviceNamespace))).To(Succeed())
	_, err = c.source.KubectlWithInput(ctx, bytes.NewReader(built), "apply", "--filename=-")
	Expect(err).NotTo(HaveOccurred())
	Expect(c.source.RedirectWebhooks(ctx, serviceNamespace, c.source.Webhook)).To(Succeed())
}

// run runs the manager in the source as main does.
func (c *clusters) run(ctx context.Context) {
	GinkgoHelper()
	health, err := c.source.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	settings := app.NewFlags(func(string) string { return "" })
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	settings.Add(set)
	Expect(set.Parse([]string{
		"--health-addr=" + health,
		"--diagnostics-address=0",
		fmt.Sprintf("--webhook-port=%d", c.source.Webhook.Port),
		"--webhook-cert-dir=" + c.source.Webhook.CertDir,
	})).To(Succeed())

	running, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- app.Run(running, c.source.Config, settings) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Not(HaveOccurred())))
	})
	Eventually(func(g Gomega) {
		g.Expect(ended).NotTo(Receive(), "the manager has ended")
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/readyz", http.NoBody)
		g.Expect(err).NotTo(HaveOccurred())
		response, err := http.DefaultClient.Do(request)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(response.Body.Close()).To(Succeed())
		g.Expect(response.StatusCode).To(Equal(http.StatusOK))
	}).Should(Succeed())
}
