// Command tests runs a tier of the tests and prints a summary: passed, failed and omitted tests, with the reasons.
//
//	tests checks    tests of documents, manifests and tools
//	tests test      unit tests and suites on an API server
//	tests e2e       the release and moves with the real programs of Cluster API, and the spine stories on real nodes
//	tests nightly   all of these without omissions, and fuzzing, chaos and benches
//	tests times     a table of the last run of each tier
//	tests exec      a test binary, for go test
//
// It stores the times of the last run of each tier in the cache. The next run starts the longest packages first.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "tests: FAILED:", err)
		stop()
		os.Exit(1) //nolint:gocritic // The deferred stop has been called.
	}
}

// options are the settings of the command line.
type options struct {
	// story is a regular expression: only stories on real nodes that match run.
	story string
	// lab runs the tests of the lab itself even if nothing in them changed.
	lab bool
	// seed is the first seed of the chaos. Zero means that the clock chooses it in the nightly tier, and a fixed seed
	// elsewhere.
	seed uint64
	// ahead is the package that exec gives more processor time than others.
	ahead string
}

func run(ctx context.Context, args []string) error {
	var chosen options
	flags := pflag.NewFlagSet("tests", pflag.ContinueOnError)
	flags.StringVar(&chosen.story, "story", "", "Regular expression that chooses stories on real nodes by name.")
	flags.BoolVar(&chosen.lab, "lab", false, "Run the tests of the lab itself even if nothing in them changed.")
	flags.Uint64Var(&chosen.seed, "seed", 0, "Seed of the chaos in the nightly tier. 0 uses the clock.")
	flags.StringVar(&chosen.ahead, "ahead", "", "Package that gets more processor time than others, for exec.")
	flags.SetInterspersed(false)
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	if flags.NArg() > 1 && flags.Arg(0) == execCommand {
		return execTest(chosen.ahead, flags.Args()[1:])
	}
	if flags.NArg() != 1 {
		return fmt.Errorf("the arguments are %q: name one of checks, test, e2e, nightly, times", flags.Args())
	}
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	if err := os.Chdir(root); err != nil {
		return fmt.Errorf("changing to the top of the checkout: %w", err)
	}
	if flags.Arg(0) == "times" {
		return printTimes(os.Stdout)
	}
	tier, err := plan(ctx, flags.Arg(0), chosen)
	if err != nil {
		return err
	}
	return tier.run(ctx)
}
