package managers

import (
	"context"
	"path/filepath"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/env"
)

// StartAddressManager installs and runs the IP address manager of Metal3 for one namespace, or for all if it is empty.
// Its CRDs must be installed. It ends with the management cluster.
func StartAddressManager(ctx context.Context, server *env.Server, namespace string) error {
	return startAddresses(ctx, server, components.AddressManager, binaries.AddressManager(), Manager{
		Namespace: "metal3-ipam-system",
		Args:      []string{"--namespace=" + namespace, "--kube-api-qps=1000", "--kube-api-burst=2000"},
	})
}

// StartInClusterAddressManager installs and runs the in-cluster provider of Cluster API's IPAM contract for all
// namespaces. Its CRDs must be installed. It ends with the management cluster.
func StartInClusterAddressManager(ctx context.Context, server *env.Server) error {
	return startAddresses(ctx, server, components.InClusterAddressManager, binaries.InClusterAddressManager(), Manager{
		Namespace: "capi-ipam-in-cluster-system", HealthFlag: "--health-probe-bind-address",
	})
}

// startAddresses installs and starts an address manager, which is the program of a set.
func startAddresses(
	ctx context.Context, server *env.Server, group components.Group, set binaries.Set, manager Manager,
) error {
	folder, err := binaries.Ensure(ctx, server.Root(), set, server.Progress())
	if err != nil {
		return err
	}
	manager.Path = filepath.Join(folder, set.Programs[0].Name)
	source := components.Source{Root: server.Root(), Progress: server.Progress()}
	manifests, err := source.AddressManifests(ctx, group)
	if err != nil {
		return err
	}
	if err := Install(ctx, server, manifests); err != nil {
		return err
	}
	_, err = Start(ctx, server, manager)
	return err
}
