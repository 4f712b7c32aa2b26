package metal3data_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3data"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func TestMetal3Data(t *testing.T) { specs.Run(t, "Metal3Data") }

// suite is shared by all stories.
type suite struct{ server *env.Server }

// The suite runs the real address manager of Metal3. The first story installs it.
var _ = Describe("Metal3Data", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPICore, components.BaremetalOperator,
		}})
		Expect((&metal3data.Reconciler{Reporter: flow.Reporter{Client: s.server.Client}}).RegisterMetrics()).To(Succeed())
	})

	describeLateAddresses(s)
	describeRendering(s)
	describeAddresses(s)
	describeContract(s)
	describeReleases(s)
	describeRefusedLists(s)
	describeOrders(s)
	describeSingleReleases(s)
	describePauses(s)
	describeCrowds(s)
	describeSharing(s)
})
