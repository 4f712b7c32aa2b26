package move_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3cluster"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/operator"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// installNamespace is the namespace in the manifests before the installation renames it.
const installNamespace = "system"

// side is one of the two management clusters, with all that is installed in it.
type side struct {
	name   string
	server *env.Server

	// client is not affected by a cut connection.
	client client.Client

	// line is the connection of clusterctl, the manager and BMO to the API server.
	line *stage.Line

	// kubeconfig is the kubeconfig of clusterctl.
	kubeconfig string

	// isCut is true while the line is cut.
	isCut bool

	// capm3 is the path of a manager of CAPM3, which runs in place of the manager under test. Empty means the manager
	// under test.
	capm3 string

	// manager is nil while it does not run. starts counts the starts, for the names of the logs.
	manager *process.Child
	starts  int
	health  string

	bmo *operator.Operator
}

func newSide(ctx context.Context, name, capm3 string) *side {
	GinkgoHelper()
	s := &side{name: name, server: startServer(ctx), capm3: capm3}
	s.client = s.server.Client
	s.line = stage.NewLine(s.server.Config)
	s.kubeconfig = s.credentials(s.server.Config, name)
	var err error
	s.health, err = s.server.Group().Address()
	Expect(err).NotTo(HaveOccurred())
	if capm3 == "" {
		s.install(ctx)
	}
	return s
}

// credentials writes a kubeconfig that uses the line.
func (s *side) credentials(user *rest.Config, name string) string {
	GinkgoHelper()
	path, err := s.server.WriteKubeconfig(name, s.over(user))
	Expect(err).NotTo(HaveOccurred())
	return path
}

// over returns a configuration that uses the line.
func (s *side) over(user *rest.Config) *rest.Config {
	config := rest.CopyConfig(user)
	config.Host = s.line.Config.Host
	return config
}

// install installs the webhooks and the permissions as they are released, with the address of the manager under test.
func (s *side) install(ctx context.Context) {
	GinkgoHelper()
	folder, err := binaries.Ensure(ctx, s.server.Root(), binaries.Tools(), GinkgoWriter)
	Expect(err).NotTo(HaveOccurred())
	Expect(s.client.Create(ctx, build.Namespace(installNamespace))).To(Succeed())
	for _, part := range []string{"config/rbac", "config/webhook"} {
		command := exec.CommandContext(ctx, filepath.Join(folder, "kustomize"), "build", part)
		command.Dir = s.server.Root()
		built, err := command.Output()
		Expect(err).NotTo(HaveOccurred())
		_, err = s.server.KubectlWithInput(ctx, bytes.NewReader(built), "apply", "--filename=-")
		Expect(err).NotTo(HaveOccurred())
	}
	Expect(s.server.RedirectWebhooks(ctx, installNamespace, s.server.Webhook)).To(Succeed())
}

// start runs the manager with the permissions that it has in a cluster, and waits until it is ready.
func (s *side) start(ctx context.Context) {
	GinkgoHelper()
	s.begin()
	s.wait(ctx)
}

// wait waits until the manager is ready.
func (s *side) wait(ctx context.Context) {
	GinkgoHelper()
	ready := func(ctx context.Context) error { return managers.Probe(ctx, "http://"+s.health+"/readyz") }
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	Expect(s.manager.WaitReady(limited, ready)).To(Succeed())
}

// begin starts the manager, and does not wait.
func (s *side) begin() {
	GinkgoHelper()
	program := s.program()
	s.starts++
	program.Name = fmt.Sprintf("manager-%d", s.starts)
	program.Args = append(program.Args,
		"--health-addr="+s.health,
		"--diagnostics-address=0",
		fmt.Sprintf("--webhook-port=%d", s.server.Webhook.Port),
		"--webhook-cert-dir="+s.server.Webhook.CertDir)
	var err error
	s.manager, err = s.server.Group().Start(program)
	Expect(err).NotTo(HaveOccurred())
}

// program returns the manager, with its own arguments and environment.
func (s *side) program() process.Program {
	GinkgoHelper()
	if s.capm3 != "" {
		return process.Program{Path: s.capm3, Env: []string{"KUBECONFIG=" + s.kubeconfig}}
	}
	account, err := s.server.ServiceAccount(installNamespace, "manager")
	Expect(err).NotTo(HaveOccurred())
	path, err := os.Executable()
	Expect(err).NotTo(HaveOccurred())
	return process.Program{
		Path: path, Args: []string{"--ironic-endpoint-interval=" + endpointInterval().String()},
		Env: []string{
			"KUBECONFIG=" + s.credentials(account, "manager"), roleVariable + "=" + roleManager, "GORACE=halt_on_error=1",
		},
	}
}

// watch watches the objects of a kind in a namespace, also while the line is cut. Existing objects count as added.
func (s *side) watch(ctx context.Context, namespace string, kind client.ObjectList) watch.Interface {
	GinkgoHelper()
	watcher, err := client.NewWithWatch(s.server.Config, client.Options{Scheme: build.Scheme()})
	Expect(err).NotTo(HaveOccurred())
	stream, err := watcher.Watch(ctx, kind, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(stream.Stop)
	return stream
}

// cut cuts the line.
func (s *side) cut() {
	s.line.Cut()
	s.isCut = true
}

// mend restores the line.
func (s *side) mend() {
	GinkgoHelper()
	if s.isCut {
		Expect(s.line.Mend()).To(Succeed())
		s.isCut = false
	}
}

// endpointInterval returns a shorter interval than the default, except for measurements, so that stories take less
// time.
func endpointInterval() time.Duration {
	if *measure {
		return metal3cluster.DefaultInterval
	}
	return quiet / 5
}

// kill kills the manager.
func (s *side) kill() {
	s.manager.Kill()
	s.manager = nil
}

// problem returns an error with the log if the manager has ended and no story has killed it.
func (s *side) problem() error {
	if s.manager == nil {
		return nil
	}
	select {
	case <-s.manager.Done():
		return fmt.Errorf("the manager of the %s has ended:\n%s", s.name, s.manager.LogTail())
	default:
		return nil
	}
}
