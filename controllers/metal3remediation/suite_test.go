package metal3remediation_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/specs"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

const (
	// patience is how long a story waits for something to happen. It is a limit, not an expectation, and far below the
	// ten minutes after which everything would be looked at again without an event.
	patience = time.Minute

	// pollEvery is how often it looks.
	pollEvery = 50 * time.Millisecond

	// quiet is how long nothing may happen where nothing should.
	quiet = time.Second
)

func TestMetal3Remediation(t *testing.T) { specs.Run(t, "Metal3Remediation") }

// suite is what all stories share.
type suite struct{ server *env.Server }

var _ = Describe("A Metal3Remediation", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		SetDefaultConsistentlyDuration(quiet)
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{
			components.Provider, components.ClusterAPI, components.HostOperator,
		}})
	})

	describeReboots(s)
	describeEscalations(s)
	describeHolds(s)
	describeDeletions(s)
	describeProtection(s)
	describeFaults(s)
})
