package host_test

import (
	"bytes"
	"context"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/host"
)

const (
	// patience is the time limit of each wait.
	patience = time.Minute

	pollEvery = 50 * time.Millisecond

	// serviceNamespace is the namespace of the Service of the webhooks before the installation sets it.
	serviceNamespace = "system"
)

func TestStories(t *testing.T) { specs.Run(t, "Hosts that are moved away") }

// suite is the shared state of the stories: an API server with the webhooks.
type suite struct {
	server *env.Server

	// machine was created before the webhook was installed.
	machine *infrav1.Metal3Machine
}

var _ = Describe("A host that is moved away", Ordered, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		s.server = stage.Start(ctx, env.Options{
			Definitions: []components.Group{components.BaremetalOperator, components.Provider},
		})
		s.machine = build.Metal3Machine("machine", "cluster", build.InNamespace(stage.Namespace(ctx, s.server)))
		Expect(s.server.Client.Create(ctx, s.machine)).To(Succeed())
	})

	describeMove(s)
})

// configure installs the webhooks of the release, with the address of a process that does not run yet.
func (s *suite) configure(ctx context.Context) {
	GinkgoHelper()
	folder, err := binaries.Ensure(ctx, s.server.Root(), binaries.Tools(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(ctx, filepath.Join(folder, "kustomize"), "build", "config/webhook")
	command.Dir = s.server.Root()
	built, err := command.Output()
	Expect(err).NotTo(HaveOccurred())
	Expect(s.server.Client.Create(ctx, build.Namespace(serviceNamespace))).To(Succeed())
	_, err = s.server.KubectlWithInput(ctx, bytes.NewReader(built), "apply", "--filename=-")
	Expect(err).NotTo(HaveOccurred())
	Expect(s.server.RedirectWebhooks(ctx, serviceNamespace, s.server.Webhook)).To(Succeed())
}

// serve runs the webhook server until the end of the suite.
func (s *suite) serve() {
	GinkgoHelper()
	mgr, err := ctrl.NewManager(s.server.Config, ctrl.Options{
		Scheme:  build.Scheme(),
		Metrics: metricsserver.Options{BindAddress: "0"},
		WebhookServer: webhook.NewServer(webhook.Options{
			Host: s.server.Webhook.Host, Port: s.server.Webhook.Port, CertDir: s.server.Webhook.CertDir,
		}),
	})
	Expect(err).NotTo(HaveOccurred())
	host.SetupWithManager(mgr)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	DeferCleanup(func() {
		stop()
		Eventually(ended).Should(Receive(Not(HaveOccurred())))
	})
	Eventually(func() error { return mgr.GetWebhookServer().StartedChecker()(nil) }).Should(Succeed())
}

// sight is a version of a host that BMO may observe.
type sight struct {
	Paused, Deleting bool
	// Value is the value of the pause.
	Value string
}

// sights watches a host from its next change to its end and returns all versions that BMO may have observed.
func (s *suite) sights(ctx context.Context, seen *bmov1alpha1.BareMetalHost) func() []sight {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(s.server.Config, client.Options{Scheme: build.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	stream, err := watcher.Watch(ctx, &bmov1alpha1.BareMetalHostList{}, client.InNamespace(seen.Namespace),
		client.MatchingFields{"metadata.name": seen.Name})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stream.Stop)
	return func() []sight {
		GinkgoHelper()
		var all []sight
		for {
			var event watch.Event
			Eventually(stream.ResultChan()).Should(Receive(&event))
			current, isHost := event.Object.(*bmov1alpha1.BareMetalHost)
			Expect(isHost).To(BeTrue(), "%v", event)
			if event.Type == watch.Added {
				// The watch begins with this version.
				continue
			}
			all = append(all, sightOf(current))
			if event.Type == watch.Deleted {
				return all
			}
		}
	}
}

func sightOf(current *bmov1alpha1.BareMetalHost) sight {
	value, paused := current.Annotations[bmov1alpha1.PausedAnnotation]
	return sight{Paused: paused, Value: value, Deleting: !current.DeletionTimestamp.IsZero()}
}
