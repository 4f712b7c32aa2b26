package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/seed"
)

// planNightly omits nothing, and continues after a step that fails. The clock chooses the seed of the chaos, unless the
// user sets one.
func planNightly(ctx context.Context, chosen options) (*tier, error) {
	if chosen.seed == 0 {
		chosen.seed = uint64(time.Now().UnixNano())
	}
	chosen.lab = true
	result, err := planTest(ctx, chosen)
	if err != nil {
		return nil, err
	}
	checks, err := planChecks(ctx)
	if err != nil {
		return nil, err
	}
	result.steps = append(checks.steps, result.steps...)
	result.name, result.goOn = "nightly", true
	result.notes = append(result.notes,
		fmt.Sprintf("the seed of the chaos is %d: make test-nightly SEED=%[1]d repeats it", chosen.seed))
	var stories []string
	if chosen.story != "" {
		stories = append(stories, "-ginkgo.focus="+chosen.story)
	}
	release := onAPIServer()
	release.race = true
	nodes := endToEnd("all stories on real nodes", nightLimit, onNodes, stories...)
	nodes.story = chosen.story
	result.steps = append(result.steps, release, nodes)
	// Benches print their goals with their measurements, and fail only if they could measure nothing.
	for _, target := range []string{"fuzz", "bench", "bench-data", "bench-vip", "bench-pivot"} {
		result.steps = append(result.steps, step{
			name: "make " + target, command: []string{"make", "--no-print-directory", target}, live: true,
		})
	}
	for i := range result.steps {
		result.steps[i].whole = true
		result.steps[i].environment = append(result.steps[i].environment,
			seed.Variable+"="+strconv.FormatUint(chosen.seed, 10))
	}
	return result, nil
}
