package managers

import (
	"context"
	"path/filepath"
	"strconv"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env/process"
)

// StartAddressManager runs the IP address manager of Metal3 for one namespace, or for all if it is empty. Its
// definitions must be installed. It ends with the management cluster.
func StartAddressManager(ctx context.Context, server *env.Server, namespace string) error {
	folder, err := binaries.Ensure(ctx, server.Root(), binaries.AddressManager(), server.Progress())
	if err != nil {
		return err
	}
	webhooks, err := server.NewWebhookServer("ipam" + namespace)
	if err != nil {
		return err
	}
	return startAddresses(ctx, server, "--health-addr", process.Program{
		Name: "ipam" + namespace, Path: filepath.Join(folder, "ip-address-manager"),
		Args: []string{
			"--namespace=" + namespace, "--diagnostics-address=127.0.0.1:0",
			"--webhook-port=" + strconv.Itoa(webhooks.Port), "--webhook-cert-dir=" + webhooks.CertDir,
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
	})
}

// StartInClusterAddressManager runs the in-cluster provider of Cluster API's IPAM contract for all namespaces,
// without its webhooks. Its definitions must be installed. It ends with the management cluster.
func StartInClusterAddressManager(ctx context.Context, server *env.Server) error {
	folder, err := binaries.Ensure(ctx, server.Root(), binaries.InClusterAddressManager(), server.Progress())
	if err != nil {
		return err
	}
	return startAddresses(ctx, server, "--health-probe-bind-address", process.Program{
		Name: "in-cluster-ipam", Path: filepath.Join(folder, "cluster-api-ipam-provider-in-cluster"),
		Args: []string{"--webhook-port=0", "--diagnostics-address=127.0.0.1:0"},
	})
}

// startAddresses starts an address manager and waits until it is ready. The flag names its address for probes.
func startAddresses(ctx context.Context, server *env.Server, flag string, program process.Program) error {
	health, err := server.Group().Address()
	if err != nil {
		return err
	}
	program.Args = append(program.Args, flag+"="+health)
	program.Env = []string{"KUBECONFIG=" + server.Kubeconfig}
	child, err := server.Group().Start(program)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return child.WaitReady(ctx, func(ctx context.Context) error { return Probe(ctx, "http://"+health+"/readyz") })
}
