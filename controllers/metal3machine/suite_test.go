package metal3machine_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func TestMetal3Machine(t *testing.T) { specs.Run(t, "Metal3Machine") }

// suite is shared by all stories.
type suite struct {
	server   *env.Server
	operator *stage.BaremetalOperator
}

// One container, because all stories share one API server. Each has a namespace and a manager of its own.
var _ = Describe("A Metal3Machine", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPI, components.BaremetalOperator,
		}})
		s.operator = stage.NewBaremetalOperator(ctx, s.server)
	})

	describeWaiting(s)
	describeClaims(s)
	describeData(s)
	describeLinks(s)
	describeLabels(s)
	describeReleases(s)
	describeHolds(s)
	describeReuse(s)
	describePauses(s)
	describeFaults(s)
	describeRefusedSpecs(s)
	describeCrowds(s)
	describeInjection(s)
})
