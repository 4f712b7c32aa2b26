// Command demo runs the provider on real kubeadm nodes and a real Ironic, for a user to watch.
//
// It creates a lab (package test/lab): machines of namespaces on this computer. The first machine is a management
// cluster, and Ironic registers the others as hosts. Then the demo performs the steps of a user with the programs of a
// user: generate a cluster, apply it, watch it, describe it, scale it up and down, delete it. At the end it compares
// the hosts with their state before the first claim.
//
// It fails if a step exceeds its time limit, and prints the folder with logs, objects and consoles.
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
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/precondition"
)

// stopLimit is the time limit for removing the lab.
const stopLimit = 3 * time.Minute

const intro = `This demo
  needs    root, Linux with Debian's debootstrap (installed if missing), %d GiB of memory, 15 GiB of disk; the first run
           builds Kubernetes and installs two Debian systems into a cache: about 21 minutes; later ones are short
  makes    a lab named %q: a management cluster and %d bare-metal machines out of namespaces, with real systemd,
           cloud-init, containerd, kubeadm, kubelet, Ironic, BMO and cert-manager; BMCs and agent are the lab's
  shows    clusterctl init, generate cluster (control-plane nodes: %d, workers: %d), describe; %s
  changes  nothing but the cache, out and, if it is lower, fs.inotify.max_user_instances; no interface, route or rule
           of this machine. It removes the lab at the end. DEMO_KEEP=1 keeps it running; make demo-clean removes it
  sizes    DEMO_CONTROL_PLANES, DEMO_WORKERS, DEMO_HOSTS; DEMO_NAME names the lab; DEMO_STORY=life shows another story:
           scaling and deletion instead of the pivot
`

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintf(os.Stderr, "\ndemo: FAILED: %v\n", err)
		stop()
		os.Exit(1) //nolint:gocritic // The deferred stop has been called.
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) == 2 && args[0] == "picture" {
		return redraw(args[1], os.Stdout)
	}
	// The demo prints the story itself. Logs are among the artefacts if it fails.
	klog.SetLogger(logr.Discard())
	ctrl.SetLogger(logr.Discard())
	size, err := readSize(os.Getenv)
	if err != nil {
		return err
	}
	if len(args) == 1 && args[0] == "clean" {
		return clean(ctx, size.name)
	}
	if len(args) > 0 {
		return fmt.Errorf("the arguments are %q: give none, clean, or picture with the file of a recording", args)
	}
	plot := "scaling; deletion"
	if size.pivot {
		plot = "clusterctl move; the loss of the management machine and of a node"
	}
	fmt.Printf(intro, precondition.Memory(size.machines()), size.name, size.hosts, size.controlPlanes, size.workers, plot)
	output := newScreen(os.Stdout)
	running, err := lab.Start(ctx, lab.Options{
		Name: size.name, Hosts: size.hosts, Machines: size.machines(), Progress: output.say,
	})
	if err != nil {
		return err
	}
	if err := errors.Join(show(ctx, running, size, output), remove(ctx, running, size.name, output)); err != nil {
		return err
	}
	fmt.Println("\ndemo: OK")
	return nil
}

// show runs the story and, with DEMO_KEEP, waits at its end. If the story fails, it collects the artefacts first.
func show(ctx context.Context, running *lab.Lab, size size, output *screen) error {
	s := &story{
		lab: running, size: size, screen: output, namespace: lab.Namespace,
		manager: running.Management(), managerName: lab.ManagementName,
		place: timeline.Track{Name: "objects are in"}, hosts: timeline.Track{Name: "hosts"},
		machines: timeline.Track{Name: "Machines"},
	}
	if err := s.run(ctx); err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
		defer cancel()
		folder := running.ArtefactsFolder()
		if collectErr := running.CollectArtefacts(ctx, folder); collectErr != nil {
			err = errors.Join(err, fmt.Errorf("collecting the artefacts: %w", collectErr))
		}
		return fmt.Errorf("%w\nlogs, objects and consoles are in %s", err, folder)
	}
	if !size.keep {
		return nil
	}
	fmt.Printf("\nThe story has ended well and the lab keeps running. In another terminal:\n  export KUBECONFIG=%s\n"+
		"  %s get cluster-api,baremetalhosts --namespace %s\n"+
		"Press Ctrl-C here, or run make demo-clean there, to remove it.\n",
		s.manager.Kubeconfig, s.manager.KubectlPath(), lab.Namespace)
	select {
	case <-ctx.Done():
	case <-running.StopRequested():
	}
	return nil
}

func remove(ctx context.Context, running *lab.Lab, name string, output *screen) error {
	output.say("Removing the lab")
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopLimit)
	defer cancel()
	if err := running.Stop(ctx); err != nil {
		return fmt.Errorf("removing the lab: %w", err)
	}
	return expectNothing(name, output)
}

// clean removes a lab that was kept, or that was killed.
func clean(ctx context.Context, name string) error {
	if err := lab.Down(ctx, name); err != nil {
		return err
	}
	return expectNothing(name, newScreen(os.Stdout))
}

// expectNothing returns an error if a part of a lab remains in the kernel or on the disk.
func expectNothing(name string, output *screen) error {
	left, err := lab.Leftovers(name)
	if err != nil {
		return err
	}
	if len(left) > 0 {
		return fmt.Errorf("%d parts of lab %s remain: run make demo-clean:\n  %s",
			len(left), name, strings.Join(left, "\n  "))
	}
	output.say("nothing is left of lab %s: no process, mount, namespace, bridge, cgroup, loop device or file", name)
	return nil
}
