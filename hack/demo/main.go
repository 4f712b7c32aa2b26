// Command demo shows the provider at work on a real API server, for a person to watch.
//
// Real are: etcd, kube-apiserver, the garbage collector, clusterctl, the managers of Cluster API and the manager of
// this provider. Simulated are the host operator and the nodes: no Ironic, no hardware and no kubelet run here. The
// output says so.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// defaultHosts is one for the control plane, three for the workers and one that stays free.
const defaultHosts = 5

const intro = `This demo
  runs     a management cluster on this machine (loopback only, no root) and installs the provider with clusterctl
  creates  %d hosts, a cluster from the template "development", and a second cluster of workers
  removes  everything at the end; DEMO_KEEP=1 keeps it running, DEMO_HOSTS changes the number of hosts
The host side is simulated: no Ironic, no hardware and no kubelet run here. All the rest is real.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: FAILED: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // The deferred stop has been called.
	}
	fmt.Println("\ndemo: OK")
}

func run(ctx context.Context) error {
	hosts := defaultHosts
	if text := os.Getenv("DEMO_HOSTS"); text != "" {
		var err error
		if hosts, err = strconv.Atoi(text); err != nil || hosts < defaultHosts {
			return fmt.Errorf("DEMO_HOSTS is %q: give a number of at least %d", text, defaultHosts)
		}
	}
	// The story is told by the demo itself; the logs of the managers are shown when it fails.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	fmt.Printf(intro, hosts)
	place, err := newPlatform(ctx)
	if err != nil {
		return err
	}
	defer place.stop()
	err = place.install(ctx)
	if err == nil {
		err = tell(ctx, place, hosts)
	}
	if err != nil {
		place.showLogs()
		return err
	}
	if os.Getenv("DEMO_KEEP") == "1" {
		fmt.Printf("\nStill running. In another terminal:\n  export KUBECONFIG=%s\n  kubectl get cluster-api,bmh -n %s\n"+
			"Press Ctrl-C to remove it.\n", place.server.Kubeconfig, namespace)
		<-ctx.Done()
	}
	return nil
}
