package move_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/fakeironic"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/operator"
)

// ironicWork is the time that the Ironic in memory takes for each operation.
const ironicWork = 30 * time.Millisecond

// newIronic starts an Ironic in memory. It ends with the suite.
func newIronic() *fakeironic.Server {
	GinkgoHelper()
	ironic := fakeironic.New()
	ironic.Work, ironic.BoardPassword = ironicWork, goodPassword
	DeferCleanup(ironic.Close)
	return ironic
}

// runBMO installs BMO, and runs it until the end of the suite.
func (s *side) runBMO(ctx context.Context, ironic *fakeironic.Server) {
	GinkgoHelper()
	var err error
	s.bmo, err = operator.Install(ctx, s.server, operator.Settings{Ironic: ironic.Access()}, s.over)
	Expect(err).NotTo(HaveOccurred())
}

// restartBMO kills BMO, and starts it again.
func (s *side) restartBMO(ctx context.Context) {
	GinkgoHelper()
	s.loseBMO(ctx, 0)
}

// loseBMO kills BMO, and starts it again after a while.
func (s *side) loseBMO(ctx context.Context, away time.Duration) {
	GinkgoHelper()
	s.bmo.Kill()
	pass(ctx, away)
	Expect(s.bmo.Start(ctx)).To(Succeed())
}
