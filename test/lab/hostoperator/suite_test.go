package hostoperator_test

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
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator"
)

const (
	// patience is how long a story waits for something to happen. It is a limit, not an expectation, and shorter than
	// the minute after which a host is looked at without an event.
	patience = 45 * time.Second

	// pollEvery is how often it looks.
	pollEvery = 50 * time.Millisecond

	// quiet is how long nothing may happen where nothing should.
	quiet = 2 * time.Second
)

func TestHostOperator(t *testing.T) { specs.Run(t, "BMO") }

// suite is what all stories share.
type suite struct{ server *env.Server }

// One container, because all stories share one API server. Each has a namespace and an operator of its own.
var _ = Describe("BMO", Ordered, ContinueOnFailure, func() {
	s := &suite{}

	BeforeAll(func(ctx context.Context) {
		SetDefaultEventuallyTimeout(patience)
		SetDefaultEventuallyPollingInterval(pollEvery)
		SetDefaultConsistentlyDuration(quiet)
		SetDefaultConsistentlyPollingInterval(pollEvery)
		s.server = stage.Start(ctx, env.Options{Definitions: []components.Group{components.HostOperator}})
		s.grant(ctx)
	})

	Describe("with an Ironic in memory", Ordered, func() {
		b := &fakeBackend{}
		BeforeAll(b.start)
		describeLife(s, b)
		describeErrors(s, b)
		describeMoves(s, b)
		describeFaults(s, b)
	})

	Describe("with a real Ironic", Ordered, Label("real"), func() {
		b := newRealBackend()
		BeforeAll(b.start)
		describeLife(s, b)
		describeErrors(s, b)
		describeMoves(s, b)
	})
})

// grant gives the operator the rights that it has in a cluster, so that the stories prove them.
func (s *suite) grant(ctx context.Context) {
	GinkgoHelper()
	for _, object := range hostoperator.Objects() {
		Expect(s.server.Client.Create(ctx, object)).To(Succeed())
	}
}
