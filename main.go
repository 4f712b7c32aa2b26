// The manager of the Metal3 infrastructure provider for Cluster API.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/app"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Unable to run the manager:", err)
		os.Exit(1)
	}
}

func run() error {
	settings := app.NewFlags(os.Getenv)
	set := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	set.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	settings.Add(set)
	// The flag --kubeconfig.
	set.AddGoFlagSet(flag.CommandLine)
	if err := set.Set("v", "2"); err != nil {
		return err
	}
	if err := set.Parse(os.Args[1:]); errors.Is(err, pflag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if err := logsv1.ValidateAndApply(settings.Logs, settings.Gates); err != nil {
		return err
	}
	ctrl.SetLogger(klog.Background())
	for _, warning := range app.Warnings(set) {
		ctrl.Log.Info(warning)
	}
	restConfig, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	return app.Run(ctrl.SetupSignalHandler(), restConfig, settings)
}
