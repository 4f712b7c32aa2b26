// Command entry has the entry points of the lab's images of the Ironic endpoint. Its name selects one.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/endpoint/entry"
)

func main() {
	// Process 1 of a container ignores signals without a handler.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	err := entry.Main(ctx, os.Args[0], os.Getenv)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}
