// Command issuer runs the replacement of cert-manager: see package issuer.
package main

import (
	"fmt"
	"os"

	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/issuer"
)

// healthAddress is the address of the probes of the Deployment.
const healthAddress = ":9440"

func main() {
	ctrl.SetLogger(klog.Background())
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "Unable to run the issuer:", err)
		os.Exit(1)
	}
}

func run() error {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("finding the API server: %w", err)
	}
	return issuer.Run(ctrl.SetupSignalHandler(), config, healthAddress)
}
