// The guard of a node: process 1 of the pod that holds the VIP.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard"
)

func main() {
	// The guard does little in parallel, and the scheduling on several processors would cost more than its work.
	runtime.GOMAXPROCS(1)
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// It would end the guard. An ignored signal would stay ignored in child processes.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	code := guard.Main(ctx, os.Args[1:], guard.Environment{Getenv: os.Getenv, Errors: os.Stderr})
	stop()
	os.Exit(code)
}
