package move_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/fakeironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is the time limit of a story for each wait. It is not an expected time.
	patience = 5 * time.Minute

	// pollEvery is the polling interval.
	pollEvery = 100 * time.Millisecond

	// quiet is the time for which a story expects no change.
	quiet = time.Second

	// roleVariable is the variable with which the test binary runs the manager.
	roleVariable = "METAL3_MOVE_ROLE"
	roleManager  = "manager"
)

var (
	faultSeed = flag.Uint64("move.seed", seed.Chosen(), "Seed of the random faults. The variable "+seed.Variable+" is the default.")

	pivots = flag.Int("move.pivots", 0, "Number of pivots with random faults. 0 chooses 3 in the short tests, and 10 in others.")

	namespaces = flag.Int("move.namespaces", 0, "Number of namespaces with -move.hosts hosts each to move one after the other.")

	hosts = flag.Int("move.hosts", goalHosts, "Number of hosts to measure with.")

	only = flag.String("move.story", "", "Only stories whose names match this regular expression.")

	measure = flag.Bool("move.measure", false, "Measure instead of testing, and print a table.")

	ironicKind = flag.String("ironic", ironicFake, "What to measure with: fake is in memory, real is the one of make lab.")
)

// Values of the flag -ironic.
const (
	ironicFake = "fake"
	ironicReal = "real"
)

// TestMain runs the manager if the variable is set, so that each manager is a process that a story can kill, and two
// managers share no process-wide state.
func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != roleManager {
		os.Exit(m.Run())
	}
	if err := runManager(); err != nil {
		fmt.Fprintln(os.Stderr, "Unable to run the manager:", err)
		os.Exit(1)
	}
}

// runManager does the same as main of the manager.
func runManager() error {
	settings := app.NewFlags(func(string) string { return "" })
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	settings.Add(set)
	if err := set.Parse(os.Args[1:]); err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return err
	}
	return app.Run(ctrl.SetupSignalHandler(), config, settings)
}

func TestMove(t *testing.T) { specs.Run(t, "Moves by clusterctl") }

// clusters are the two management clusters.
type clusters struct {
	source, target *side
	clusterctl     components.Clusterctl

	// capm3 is the path of the manager of CAPM3 that runs in the target. Empty for the manager under test.
	capm3 string

	// ironic is the Ironic of the BMOs of both clusters, at one address. worlds counts the worlds that share it.
	ironic *fakeironic.Server
	worlds atomic.Int32
}

// Stories share two API servers, each with a manager and a BMO. Stories that break or replace something have API servers
// of their own. Each story has a namespace of its own.
var _ = Describe("A move by clusterctl", Ordered, ContinueOnFailure, func() {
	whole := &clusters{}
	if *pivots == 0 {
		*pivots = 10
		if testing.Short() {
			*pivots = 3
		}
	}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		if *measure {
			// The creation of many hosts takes longer, and is not measured. The real Ironic is one process.
			limit := patience * time.Duration(max(1, *hosts/goalHosts))
			if *ironicKind == ironicReal {
				limit *= 4
			}
			SetDefaultEventuallyTimeout(limit)
		}
		SetDefaultEventuallyPollingInterval(pollEvery)
		SetDefaultConsistentlyDuration(quiet)
		whole.open(ctx)
	})

	if *measure {
		describeMeasurements(whole)
		describeReturn(whole)
		describeCampaign(whole)
		for _, one := range []story{chaos(whole), chaosOfHandovers(whole)} {
			It(one.name, one.play)
		}
		return
	}
	describeLabels(whole)
	describeStories(whole)
})

// open starts all programs. The managers are ready at its end.
func (c *clusters) open(ctx context.Context) {
	GinkgoHelper()
	together(
		func() { c.source = newSide(ctx, "source", "") },
		func() { c.target = newSide(ctx, "target", c.capm3) },
	)
	c.prepare(ctx)
	c.source.begin()
	c.target.begin()
	c.acquaint(ctx)
	c.source.wait(ctx)
	c.target.wait(ctx)
	c.ironic = newIronic()
	together(
		func() { c.source.runBMO(ctx, c.ironic) },
		func() { c.target.runBMO(ctx, c.ironic) },
	)
	DeferCleanup(func() { c.tellManagers(CurrentSpecReport().Failed()) })
}

// prepare writes a configuration of clusterctl that names no provider: clusterctl installs none.
func (c *clusters) prepare(ctx context.Context) {
	GinkgoHelper()
	config := filepath.Join(GinkgoT().TempDir(), "clusterctl.yaml")
	Expect(os.WriteFile(config, []byte("providers: []\n"), 0o600)).To(Succeed())
	var err error
	c.clusterctl, err = components.Source{Root: c.source.server.Root(), Progress: GinkgoWriter}.
		Clusterctl(ctx, config, c.source.kubeconfig)
	Expect(err).NotTo(HaveOccurred())
}

// acquaint lets clusterctl install its own CRDs in both clusters, as clusterctl init does. The first command of
// clusterctl for a cluster takes long.
func (c *clusters) acquaint(ctx context.Context) {
	GinkgoHelper()
	work, ctx := errgroup.WithContext(ctx)
	for _, side := range []*side{c.source, c.target} {
		work.Go(func() error {
			_, err := c.clusterctl.Run(ctx, "move", "--dry-run", "--kubeconfig="+side.kubeconfig, "--namespace=default")
			return err
		})
	}
	Expect(work.Wait()).To(Succeed())
}

// tellManagers prints the ends of the logs of the managers if a story has failed, and requires that the managers run.
func (c *clusters) tellManagers(failed bool) {
	GinkgoHelper()
	var ended error
	for _, side := range []*side{c.source, c.target} {
		if failed && side.manager != nil {
			GinkgoWriter.Printf("the manager of the %s says at last:\n%s\n", side.name, side.manager.LogTail())
		}
		if failed {
			GinkgoWriter.Printf("BMO of the %s says at last:\n%s\n", side.name, side.bmo.LogTail())
		}
		ended = errors.Join(ended, side.problem())
	}
	Expect(ended).NotTo(HaveOccurred())
}

// heal repairs what the previous story has broken.
func (c *clusters) heal(ctx context.Context) {
	GinkgoHelper()
	for _, side := range []*side{c.source, c.target} {
		side.mend()
		stage.EndHold(ctx, side.client)
		if side.manager == nil {
			side.start(ctx)
		}
	}
}

func startServer(ctx context.Context) *env.Server {
	GinkgoHelper()
	return stage.Start(ctx, env.Options{Definitions: []components.Group{
		components.Provider, components.ClusterAPI, components.BaremetalOperator, components.AddressManager,
	}})
}
