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

// sweepLimit is the time limit for removing a lab.
const sweepLimit = 90 * time.Second

// guard waits until the process at the other end of standard input has ended, and then removes the lab. It holds the
// socket of the claim, so the name of the lab stays in use meanwhile.
func guard(lab string) error {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		// A broken pipe counts as closed.
		fmt.Fprintln(os.Stderr, "reading from the lab:", err)
	}
	ctx, stop := context.WithTimeout(context.Background(), sweepLimit)
	defer stop()
	if err := machine.Sweep(ctx, lab); err != nil {
		return fmt.Errorf("removing lab %s: %w", lab, err)
	}
	return nil
}
