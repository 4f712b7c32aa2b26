// Package env starts a real management cluster on the loopback interface: etcd, kube-apiserver and, for garbage
// collection, kube-controller-manager. Test suites, the demo and the benchmarks use it.
//
// The package starts the programs itself, because the processes of envtest outlive a test that is killed. Here they end
// with the test, and their folder is removed (package process). From envtest, the package uses only the installation of
// objects into a running server. CRDs are installed once: later servers start with what the first one stored in etcd.
//
// The cluster has no kubelet and no scheduler, so Deployments have no pods. The data is not synced to disk, and is
// removed at the end.
package env

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

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

// Options are the settings of a management cluster. The zero value is for most suites: all CRDs except for those of
// cert-manager, no webhooks, no kube-controller-manager.
type Options struct {
	// Definitions are the groups of CRDs to install. Nil means all except for cert-manager. An empty list means none.
	// Each set of groups is installed once, and its seed is kept in the cache.
	Definitions []components.Group

	// Webhooks installs the admission and conversion webhooks of this provider. Their address is Server.Webhook, on
	// which the manager under test must listen before the first write.
	Webhooks bool

	// ControllerManager runs the parts of kube-controller-manager that Cluster API relies on. See
	// Server.StartControllerManager.
	ControllerManager bool

	// WatchCache lets the API server serve reads and watches from memory, as in production. The first list of each kind
	// then waits about a second. Without it, etcd answers at once.
	WatchCache bool

	// Roomy lets etcd and the API server collect no garbage until they use 200 and 400 MiB: a suite then takes less
	// processor time. Benchmarks measure without it.
	Roomy bool

	// Audit records all requests, so that Server.Requests can count them.
	Audit bool

	// APIServerFlags are added to those of kube-apiserver, without leading dashes: feature-gates=A=true.
	APIServerFlags []string

	// Progress gets messages while programs are built. Nil means os.Stderr.
	Progress io.Writer

	// installs lets the API server install all CRDs itself, for a seed.
	installs bool
}

// Server is a running management cluster.
type Server struct {
	// Config is the configuration of a cluster administrator. It has no client-side rate limit, and a token, because the
	// API server verifies certificates at each request.
	Config *rest.Config

	// Kubeconfig is a file for the same user, with a certificate, as Cluster API writes it.
	Kubeconfig string

	// Client reads and writes without a cache, with all kinds of build.Scheme.
	Client client.Client

	// Webhook is the address of the webhooks of the manager under test.
	Webhook WebhookServer

	group     *process.Group
	authority *certificates.Authority
	programs  programs
	root      string
	options   Options
	// signingKey is the file with the key that signs the tokens of service accounts.
	signingKey string
	// tokens is the file with the token of Config.
	tokens, token string
	// address of kube-apiserver, and URL of etcd.
	address, etcd string
}

// Start starts a management cluster and waits until it is ready. The caller must call Stop. If the process is killed
// before that, everything is removed as well.
func Start(ctx context.Context, options Options) (*Server, error) {
	if options.Progress == nil {
		options.Progress = os.Stderr
	}
	if options.Definitions == nil {
		options.Definitions = []components.Group{
			components.Provider, components.ClusterAPI, components.BaremetalOperator, components.AddressManager,
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

// start reads the definitions to install while the API server starts: both take about the same time.
func (s *Server) start(ctx context.Context) error {
	var err error
	if s.programs, err = findPrograms(ctx, s.root, s.options); err != nil {
		return err
	}
	seeded := s.options.seededGroups()
	installed := slices.DeleteFunc(slices.Clone(s.options.Definitions), func(group components.Group) bool {
		return slices.Contains(seeded, group)
	})
	var definitions []*apiextensionsv1.CustomResourceDefinition
	work, workCtx := errgroup.WithContext(ctx)
	work.Go(func() error {
		var err error
		definitions, err = s.source().Definitions(workCtx, installed...)
		return err
	})
	work.Go(func() error { return s.startAPIServer(workCtx, seeded) })
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

func (s *Server) startAPIServer(ctx context.Context, seeded []components.Group) error {
	var planted seed
	if len(seeded) > 0 {
		var err error
		if planted, err = s.findSeed(ctx, seeded); err != nil {
			return err
		}
	}
	if _, err := reports.File("env", reports.APIServer); err != nil {
		return err
	}
	if err := s.prepareCertificates(); err != nil {
		return fmt.Errorf("making certificates: %w", err)
	}
	if err := s.runAPIServer(ctx, planted); err != nil {
		return err
	}
	var err error
	s.Client, err = client.New(s.Config, client.Options{Scheme: build.SharedScheme()})
	return err
}

// Stop kills the programs and removes the folder. A second call does nothing.
func (s *Server) Stop() error { return s.group.Close() }

// Group runs further programs that end with this management cluster.
func (s *Server) Group() *process.Group { return s.group }

// Root is the top of the checkout.
func (s *Server) Root() string { return s.root }

// Progress gets messages while programs are built.
func (s *Server) Progress() io.Writer { return s.options.Progress }

func (s *Server) source() components.Source {
	return components.Source{Root: s.root, Progress: s.options.Progress}
}

func (s *Server) auditLog() string { return filepath.Join(s.group.Folder(), "audit.log") }
