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
	health, err := server.Group().Address()
	if err != nil {
		return err
	}
	child, err := server.Group().Start(process.Program{
		Name: "ipam" + namespace, Path: filepath.Join(folder, "ip-address-manager"),
		Args: []string{
			"--namespace=" + namespace, "--health-addr=" + health, "--diagnostics-address=127.0.0.1:0",
			"--webhook-port=" + strconv.Itoa(webhooks.Port), "--webhook-cert-dir=" + webhooks.CertDir,
			"--kube-api-qps=1000", "--kube-api-burst=2000",
		},
		Env: []string{"KUBECONFIG=" + server.Kubeconfig},
	})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	return child.WaitReady(ctx, func(ctx context.Context) error { return Probe(ctx, "http://"+health+"/readyz") })
}
