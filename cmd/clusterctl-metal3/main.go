// The plugin of clusterctl and kubectl for moves: clusterctl metal3, or kubectl metal3.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	// Authentication plugins of kubeconfigs.
	_ "k8s.io/client-go/plugin/pkg/client/auth"
	"k8s.io/klog/v2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
)

func main() {
	// Commands report errors as their result. The libraries would log them a second time.
	klog.SetLogger(klog.Logger{})
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	// A second signal ends the process.
	context.AfterFunc(ctx, stop)
	code := plugin.Main(ctx, os.Args, plugin.Environment{Input: os.Stdin, Output: os.Stdout, Errors: os.Stderr})
	stop()
	os.Exit(code)
}
