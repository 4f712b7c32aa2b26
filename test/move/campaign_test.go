package move_test

import (
	"context"
	"fmt"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/stage"
)

// describeCampaign measures the moves of many namespaces, one after the other, as the documents describe.
func describeCampaign(c *clusters) {
	It("measures a campaign of many namespaces", func(ctx context.Context) {
		if *namespaces == 0 {
			Skip("-move.namespaces is 0")
		}
		fmt.Printf("making %d namespaces with %d hosts each\n", *namespaces, *hosts)
		var worlds []*world
		var parts []func()
		turns := make(chan struct{}, besideLimit)
		for range *namespaces {
			w := c.world(ctx)
			worlds = append(worlds, w)
			parts = append(parts, func() {
				turns <- struct{}{}
				defer func() { <-turns }()
				w.fleet(ctx, "cluster", *hosts, 0)
				w.readyForMove(ctx)
			})
		}
		together(parts...)
		var before []trace
		var acts []map[string]int
		for _, w := range worlds {
			before, acts = append(before, w.trace(ctx)), append(acts, actsOf(w.ironic))
		}
		var took []time.Duration
		began := time.Now()
		for number, w := range worlds {
			departed := time.Now()
			w.move(ctx)
			w.settled(ctx)
			took = append(took, time.Since(departed))
			fmt.Printf("%d of %d namespaces have moved, the last one in %.1f s\n", number+1, *namespaces, took[number].Seconds())
		}
		all := time.Since(began)
		harmed, steps := 0, 0
		for i, w := range worlds {
			steps += len(w.steps)
			harmed += len(w.harmed(ctx, before[i], acts[i], actsOf(w.ironic)))
			w.infras(ctx, stage.HaveCondition(infrav1.ReadyForMoveCondition, stage.IsTrueBecause(infrav1.ReadyForMoveReason)))
		}
		slices.Sort(took)
		table(fmt.Sprintf("%d namespaces with %d hosts each", *namespaces, *hosts), []row{
			timed("all moves, one after the other", all, 0),
			timed("  the fastest of them, until all hosts run in the target", took[0], 0),
			timed("  the one in the middle", took[len(took)/2], 0),
			timed("  the slowest one", took[len(took)-1], 0),
			counted("steps by hand, besides clusterctl move", steps),
			counted("hosts re-provisioned, power-cycled or lost", harmed),
		})
		Expect(harmed).To(BeZero())
	})
}
