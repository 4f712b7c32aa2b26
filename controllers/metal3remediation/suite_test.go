package metal3remediation_test

import (
	"context"
	"testing"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/controllers/metal3remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

func TestMetal3Remediation(t *testing.T) { specs.Run(t, "Metal3Remediation") }

// suite is shared by all stories.
type suite struct {
	server   *env.Server
	operator *stage.BaremetalOperator
}

var _ = Describe("A Metal3Remediation", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		stage.SetLimits()
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPICore, components.BaremetalOperator,
		}})
		s.operator = stage.NewBaremetalOperator(ctx, s.server)
		Expect(metal3remediation.RegisterMetrics(s.server.Client)).To(Succeed())
	})

	describeReboots(s)
	describeEscalations(s)
	describeHealthChecks(s)
	describeHolds(s)
	describeDeletions(s)
	describeProtection(s)
	describePeers(s)
	describeOperators(s)
	describeFaults(s)
})
