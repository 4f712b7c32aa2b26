package move_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// outages are the stories of an API server or a manager that is away for a while.
func outages(c *clusters) []story {
	return []story{
		story{"changes nothing when the target does not answer, and moves later", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			w.there.cut()
			Eventually(w.begin(ctx).ended).Should(Receive(HaveOccurred()))
			w.unharmed(ctx, before)
			w.readyForMove(ctx)

			By("interrupting the connection to the target during the move")
			w.there.mend()
			journey, release := w.beginCopy(ctx)
			w.there.cut()
			release()
			pass(ctx, quiet)
			w.there.mend()
			w.arrive(ctx, journey)
			w.unharmed(ctx, before)
			w.settled(ctx)
		}}.atNight(),
		story{"continues when the manager is killed while it parks hosts", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			journey := w.begin(ctx)
			w.eventually(ctx, "cluster-0", isPausedBy(infrav1.HostPausedByProvider))
			w.here.kill()
			w.here.start(ctx)
			w.arrive(ctx, journey)
			w.unharmed(ctx, before)
		}}.atNight(),
		story{"waits for the manager of the target", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			w.there.kill()
			journey := w.begin(ctx)
			// The webhooks of this provider do not apply to Clusters.
			Eventually(func() error {
				return w.there.client.Get(ctx, w.key("cluster"), &clusterv1.Cluster{})
			}).Should(Succeed())
			Consistently(journey.ended).ShouldNot(Receive())
			w.there.start(ctx)
			w.arrive(ctx, journey)
			w.unharmed(ctx, before)
		}}.atNight(),
		story{"moves while managers are replaced right before and right after", func(ctx context.Context) {
			w := c.world(ctx)
			before := w.readyFleet(ctx)
			both := []*side{w.here, w.there}
			for _, side := range both {
				side.kill()
				side.start(ctx)
			}
			w.move(ctx)
			for _, side := range both {
				side.kill()
				side.start(ctx)
			}
			w.unharmed(ctx, before)
			w.settled(ctx)
		}}.atNight(),
	}
}

// describeReturn has the story of a cluster that moves back and forth.
func describeReturn(c *clusters) {
	It("moves back, and forth again", func(ctx context.Context) {
		w := c.world(ctx)
		w.fleet(ctx, "cluster", 2, 2)
		before := w.trace(ctx)
		for range 3 {
			w.readyForMove(ctx)
			w.move(ctx)
			w.unharmed(ctx, before)
			w.settled(ctx)
		}
	})
}
