// Command hostoperator runs the stand-in for the Baremetal Operator; see package hostoperator.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/ironicapi"
)

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Unable to run BMO:", err)
		os.Exit(1)
	}
}

func run() error {
	options := hostoperator.NewOptions()
	set := pflag.NewFlagSet("hostoperator", pflag.ContinueOnError)
	options.Add(set)
	// The flag --kubeconfig.
	set.AddGoFlagSet(flag.CommandLine)
	if err := set.Parse(os.Args[1:]); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	settings, err := ironicapi.SettingsFrom(os.Getenv)
	if err != nil {
		return err
	}
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	return hostoperator.Run(ctrl.SetupSignalHandler(), config, settings, options)
}
