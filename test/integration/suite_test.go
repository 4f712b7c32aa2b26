// Package integration_test runs the real programs together: clusterctl, the managers of Cluster API and the manager
// of this provider, on a real API server with a real garbage collector. BMO has an Ironic in memory.
//
// No machine boots. A cluster therefore gets only its first control-plane machine, whose host is provisioned and
// whose Node never joins.
package integration_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"github.com/onsi/gomega/format"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/managers"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is the time limit of each wait.
	patience = 10 * time.Minute

	pollEvery = 250 * time.Millisecond

	// buildPatience includes the build of all programs.
	buildPatience = 30 * time.Minute
)

// management is the management cluster of all specs.
type management struct {
	server     *env.Server
	source     components.Source
	clusterctl components.Clusterctl

	// published is a clusterctl that finds only CAPM3. Empty if the cluster starts with this provider.
	published components.Clusterctl

	processes []*managers.Process

	// release is the folder of the release under test. Without one, missing is the error.
	release string
	missing error

	// capm3 is the folder of a release of CAPM3 or of its imitation. Empty if the cluster starts with this provider.
	capm3 string
}

func TestIntegration(t *testing.T) {
	// Show the complete output of clusterctl.
	format.MaxLength, format.TruncatedDiff = 0, false
	specs.Run(t, "Integration")
}

// One container, because the start of all programs takes most of the time. Each spec begins with the state of the
// previous one.
var _ = Describe("A management cluster", Ordered, func() {
	m := &management{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		m.start(ctx)
	}, NodeTimeout(buildPatience))

	AfterEach(func(ctx context.Context) {
		m.reportFailure(ctx)
		for _, process := range m.processes {
			Expect(process.Child.Done()).NotTo(BeClosed(), "a manager ended:\n%s", process.Child.LogTail())
		}
	})

	describeClusterAPI(m)
	describeProvider(m)
	describeTopology(m)
})

var _ = Describe("A management cluster with CAPM3", Ordered, func() {
	m := &management{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		m.startWithEarlier(ctx)
	}, NodeTimeout(buildPatience))

	AfterEach(m.reportFailure)

	describeUpgrade(m)
})

func (m *management) start(ctx context.Context, earlier ...string) {
	GinkgoHelper()
	// clusterctl installs Cluster API and this provider. BMO is not a provider of clusterctl.
	var err error
	m.server, err = env.Start(ctx, env.Options{
		Definitions: []components.Group{components.BaremetalOperator, components.AddressManager},
		WatchCache:  true,
		Roomy:       true,
		Progress:    GinkgoWriter,
	})
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(m.server.Stop()).To(Succeed()) })

	m.source = components.Source{Root: m.server.Root(), Progress: GinkgoWriter}
	m.release, m.missing = releaseFolder(m.server.Root())
	config, err := m.source.WriteRepository(ctx, components.Repository{
		Folder: GinkgoT().TempDir(), Release: m.release, Earlier: earlier,
	})
	Expect(err).NotTo(HaveOccurred())
	m.clusterctl, err = m.source.Clusterctl(ctx, config, m.server.Kubeconfig)
	Expect(err).NotTo(HaveOccurred())
	m.clusterctl.Variables = variables()
	stage.RunBMO(ctx, m.server)
	stage.TriggerOften(m.server, build.DefaultNamespace, stage.PollInterval)
}

func (m *management) reportFailure(ctx context.Context) {
	if !CurrentSpecReport().Failed() || m.server == nil {
		return
	}
	for _, process := range m.processes {
		AddReportEntry("end of "+process.Child.LogFile(), process.Child.LogTail(), ReportEntryVisibilityFailureOrVerbose)
	}
	objects, err := m.server.Kubectl(ctx, "get", "cluster-api,baremetalhosts", "--all-namespaces", "-o", "wide")
	AddReportEntry("objects", fmt.Sprintf("%s(error: %v)", objects, err), ReportEntryVisibilityFailureOrVerbose)
}

func (m *management) kubectl(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := m.server.Kubectl(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

func (m *management) run(ctx context.Context, args ...string) string {
	GinkgoHelper()
	output, err := m.clusterctl.Run(ctx, args...)
	Expect(err).NotTo(HaveOccurred())
	return output
}

// startManagers starts managers and waits until they are ready.
func (m *management) startManagers(ctx context.Context, wanted ...managers.Manager) {
	GinkgoHelper()
	started, err := managers.Start(ctx, m.server, wanted...)
	Expect(err).NotTo(HaveOccurred())
	m.processes = append(m.processes, started...)
}
