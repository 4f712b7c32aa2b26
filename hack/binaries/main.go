// Command binaries builds a set of pinned programs, if required, and prints the folder of the programs.
package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "binaries:", err)
		os.Exit(1)
	}
}

func run() error {
	sets := binaries.Sets()
	names := strings.Join(slices.Sorted(maps.Keys(sets)), ", ")
	if len(os.Args) != 2 {
		return fmt.Errorf("usage: binaries SET, with SET one of %s", names)
	}
	set, known := sets[os.Args[1]]
	if !known {
		return fmt.Errorf("unknown set %q, expected one of %s", os.Args[1], names)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	root, err := binaries.Root()
	if err != nil {
		return err
	}
	dir, err := binaries.Ensure(ctx, root, set, os.Stderr)
	if err != nil {
		return err
	}
	fmt.Println(dir)
	return nil
}
