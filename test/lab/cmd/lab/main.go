// Command lab runs a lab for developers, on this Linux machine and as root.
//
//	lab build  builds the shared files of all labs into the cache, if required
//	lab up     creates a lab and runs it until Ctrl-C
//	lab target makes a cluster on its hosts a target for a move
//	lab down   stops a lab in another terminal, and removes leftovers
//	lab sweep  removes leftovers of a killed lab
//
// See package lab.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
)

// stopLimit is the time limit for the end of the lab after Ctrl-C.
const stopLimit = 3 * time.Minute

const usage = `usage: lab build
       lab up|down|sweep --name NAME [flags]
       lab target --name NAME CLUSTER
`

const intro = `
The lab runs. In another terminal:
  export KUBECONFIG=%[1]s
  %[2]s get baremetalhosts --all-namespaces
A cluster on its hosts:
  %[3]s %[4]s generate cluster one --config=%[5]s \
    --from=%[6]s --target-namespace=%[7]s \
    --kubernetes-version=%[8]s --control-plane-machine-count=1 --worker-machine-count=1 |
    %[2]s apply -f -
For one whose control plane takes the Ironic endpoint over:
    --from=%[9]s --control-plane-machine-count=3 --worker-machine-count=0
To prepare it as the target of a pivot:
  go run ./test/lab/cmd/lab target --name %[10]s one
Press Ctrl-C to remove it.
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "lab: FAILED:", err)
		stop()
		os.Exit(1) //nolint:gocritic // The deferred stop has been called.
	}
}

func run(ctx context.Context, args []string) error {
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	var options lab.Options
	flags := pflag.NewFlagSet("lab", pflag.ContinueOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, usage, flags.FlagUsages()) }
	flags.StringVar(&options.Name, "name", "", "Name of the lab: up to 12 lower-case letters, digits and -. Required.")
	flags.IntVar(&options.Hosts, "hosts", 2, "Number of hosts.")
	flags.StringVar(&options.Release, "release", "",
		"Folder of a release of this provider. Empty means the newest in out/release of the checkout.")
	flags.StringVar(&options.Artefacts, "artefacts", "",
		"Folder for the artefacts of a failure. Empty means out/lab/NAME of the checkout.")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, pflag.ErrHelp) {
			return nil
		}
		return err
	}
	started := time.Now()
	options.Progress = func(format string, values ...any) {
		fmt.Printf("[%6.1fs] %s\n", time.Since(started).Seconds(), fmt.Sprintf(format, values...))
	}
	switch flags.Arg(0) {
	case "build":
		return lab.Prepare(ctx, options.Progress)
	case "up":
		return up(ctx, options)
	case "target":
		return target(ctx, options.Name, flags.Args()[1:])
	case "down":
		return lab.Down(ctx, options.Name)
	case "sweep":
		return lab.Sweep(ctx, options.Name)
	default:
		flags.Usage()
		return fmt.Errorf("the command is %q: give build, up, target, down or sweep", flags.Arg(0))
	}
}

// target requests a target cluster from the process that runs a lab.
func target(ctx context.Context, name string, clusters []string) error {
	if name == "" || len(clusters) != 1 {
		return errors.New("lab target requires --name with the name of the lab, and the name of one cluster")
	}
	path, err := socketPath(name)
	if err != nil {
		return err
	}
	return requestTarget(ctx, path, name, clusters[0], os.Stdout)
}

func up(ctx context.Context, options lab.Options) error {
	running, err := lab.Start(ctx, options)
	if err != nil {
		return err
	}
	if err := running.ShareIronic(ctx); err != nil {
		return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
	}
	path, err := socketPath(options.Name)
	if err != nil {
		return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
	}
	stopServing, err := serveRequests(ctx, path, prepareTarget(running))
	if err != nil {
		return errors.Join(err, running.Stop(context.WithoutCancel(ctx)))
	}
	cluster, clusterctl := running.Management(), running.Management().Clusterctl()
	fmt.Printf(intro, cluster.Kubeconfig, cluster.KubectlPath(), strings.Join(clusterctl.Variables, " "), clusterctl.Path,
		clusterctl.Config, running.Template(), lab.Namespace, binaries.KubernetesVersion, running.TemplateWithIronic(),
		options.Name)
	// Ctrl-C and lab down have the same effect.
	select {
	case <-ctx.Done():
	case <-running.StopRequested():
	}
	options.Progress("stopping the lab")
	stopServing()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	return running.Stop(ctx)
}
