// Package env starts a real management cluster on the loopback interface: etcd, kube-apiserver and, where garbage has
// to be collected for real, kube-controller-manager. Test suites, the demo and the benchmarks run on it.
//
// It starts the programs itself and uses of controller-runtime's envtest only what installs things into a server that
// runs, because the processes of envtest outlive a test that is killed. Here they die with it, and their folder goes
// too (package process).
//
// It refuses to be more than an API: no kubelet and no scheduler, so Deployments stay without pods. The data is not
// synced to disk and is gone afterwards.
package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/certificates"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/reports"
)

// Options say what a management cluster consists of. The zero value is what most suites want: the definitions of
// everything but cert-manager, no webhooks, no kube-controller-manager.
type Options struct {
	// Definitions are the groups of custom resource definitions to install. Nil means all but cert-manager; an empty
	// list means none. Each group costs start time, Cluster API most of all: a suite names what it needs.
	Definitions []components.Group

	// Webhooks installs the admission and conversion webhooks of this provider. They are called on the address in
	// Server.Webhook, where the manager under test has to listen before anything is written.
	Webhooks bool

	// ControllerManager runs the parts of kube-controller-manager that Cluster API relies on. See
	// Server.StartControllerManager.
	ControllerManager bool

	// WatchCache lets the API server answer reads and watches from memory, as in production. The first list of each kind
	// then waits about a second for that memory; without it, etcd answers at once.
	WatchCache bool

	// Audit records all requests, so that Server.Requests can count them.
	Audit bool

	// APIServerFlags are added to those of kube-apiserver, without leading dashes: feature-gates=A=true.
	APIServerFlags []string

	// Progress is written when programs have to be built first. Nil means os.Stderr.
	Progress io.Writer
}

// Server is a management cluster that runs.
type Server struct {
	// Config is that of a user who may do everything. It has no client-side rate limit.
	Config *rest.Config

	// Kubeconfig is a file for the same user.
	Kubeconfig string

	// Client reads and writes without a cache and knows all kinds of build.Scheme.
	Client client.Client

	// Webhook is where the webhooks of the manager under test are called.
	Webhook WebhookServer

	group     *process.Group
	authority *certificates.Authority
	programs  programs
	root      string
	options   Options
	// signingKey is the file with the key that signs the tokens of service accounts.
	signingKey string
	// address of kube-apiserver.
	address string
}

// Start starts a management cluster and waits until it is ready. Stop must be called in the end; if the process is
// killed before it can, everything is cleaned up as well.
func Start(ctx context.Context, options Options) (*Server, error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	if options.Definitions == nil {
		options.Definitions = []components.Group{
			components.Provider, components.ClusterAPI, components.HostOperator, components.AddressManager,
		}
	}
	root, err := binaries.Root()
	if err != nil {
		return nil, err
	}
	group, err := process.NewGroup("metal3-env-")
	if err != nil {
		return nil, err
	}
	server := &Server{group: group, root: root, options: options}
	if err := server.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting a management cluster: %w", err), server.Stop())
	}
	return server, nil
}

// start reads the definitions while the API server starts: both take about as long.
func (s *Server) start(ctx context.Context) error {
	var definitions []*apiextensionsv1.CustomResourceDefinition
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error {
		var err error
		definitions, err = s.source().Definitions(workCtx, s.options.Definitions...)
		return err
	})
	work.Go(func() error { return s.startAPIServer(workCtx) })
	if err := work.Wait(); err != nil {
		return err
	}
	if err := s.installDefinitions(ctx, definitions); err != nil {
		return err
	}
	if s.options.Webhooks {
		if err := s.installWebhooks(ctx); err != nil {
			return fmt.Errorf("installing the webhooks: %w", err)
		}
	}
	if s.options.ControllerManager {
		return s.StartControllerManager(ctx)
	}
	return nil
}

func (s *Server) startAPIServer(ctx context.Context) error {
	var err error
	if s.programs, err = findPrograms(ctx, s.root, s.options); err != nil {
		return err
	}
	if _, err := reports.File("env", reports.APIServer); err != nil {
		return err
	}
	if err := s.prepareCertificates(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := s.runAPIServer(ctx); err != nil {
		return err
	}
	s.Client, err = client.New(s.Config, client.Options{Scheme: build.Scheme()})
	return err
}

// Stop kills the programs and removes the folder. A second call does nothing.
func (s *Server) Stop() error { return s.group.Close() }

// Group runs further programs that share the fate of this management cluster.
func (s *Server) Group() *process.Group { return s.group }

// Root is the top of the checkout.
func (s *Server) Root() string { return s.root }

// Progress is where programs that have to be built first are announced.
func (s *Server) Progress() io.Writer { return s.options.Progress }

func (s *Server) source() components.Source {
	return components.Source{Root: s.root, Progress: s.options.Progress}
}

func (s *Server) auditLog() string { return filepath.Join(s.group.Folder(), "audit.log") }
