package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
)

// sweepLimit is how long removing a lab may take.
const sweepLimit = 90 * time.Second

// guard waits until the process that holds the other end of the standard input has ended, however it did, then removes
// everything of the lab. While it runs the lab's name is taken: it holds the claim's socket too.
func guard(lab string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		// A broken pipe means the same as a closed one.
		fmt.Fprintln(os.Stderr, "reading from the lab:", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), sweepLimit)
	defer stop()
	if err := machine.Sweep(ctx, lab); err != nil {
		return fmt.Errorf("removing lab %s: %w", lab, err)
	}
	return nil
}
