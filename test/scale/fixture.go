package main

import (
	"context"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"golang.org/x/sync/errgroup"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	v1beta1conditions "sigs.k8s.io/cluster-api/util/conditions/deprecated/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/components"
)

const (
	// clusterName is the Cluster of all machines.
	clusterName = "scale"

	// writers is the number of parallel writes. More do not speed the API server up.
	writers = 8
)

// definitions returns the groups of CRDs.
func definitions() []components.Group {
	return []components.Group{components.Provider, components.ClusterAPI, components.BaremetalOperator}
}

func hostName(number int) string    { return fmt.Sprintf("host-%04d", number) }
func machineName(number int) string { return fmt.Sprintf("machine-%04d", number) }

// fixture has the objects that exist before the measurement.
type fixture struct {
	client client.Client

	// hosts are the hosts before any claim, by name.
	hosts map[string]bmov1alpha1.BareMetalHost

	// cluster is the Cluster of all machines.
	cluster *clusterv1.Cluster

	// machines are not created yet. Their Machines exist.
	machines []*infrav1.Metal3Machine

	// creation is the time to create the Machines without a running manager.
	creation time.Duration
}

// prepare creates all objects except the Metal3Machines and the Metal3Cluster, whose webhook requires the manager.
// The hosts have the given state.
func prepare(ctx context.Context, c client.Client, hosts, machines int, state bmov1alpha1.ProvisioningState,
) (*fixture, error) {
	made := &fixture{client: c, hosts: map[string]bmov1alpha1.BareMetalHost{}}
	if err := c.Create(ctx, build.Namespace(build.DefaultNamespace)); err != nil {
		return nil, fmt.Errorf("creating the namespace: %w", err)
	}
	if err := inParallel(hosts, func(number int) error { return createHost(ctx, c, number, state) }); err != nil {
		return nil, err
	}
	made.cluster = build.Cluster(clusterName, build.InfrastructureReady())
	// CAPM3 reads this condition, and requires the format of the image.
	v1beta1conditions.MarkTrue(made.cluster, clusterv1.InfrastructureReadyV1Beta1Condition)
	if err := build.CreateWithStatus(ctx, c, made.cluster); err != nil {
		return nil, err
	}
	if err := made.createMachines(ctx, machines); err != nil {
		return nil, err
	}
	var list bmov1alpha1.BareMetalHostList
	if err := c.List(ctx, &list, client.InNamespace(build.DefaultNamespace)); err != nil {
		return nil, fmt.Errorf("listing hosts: %w", err)
	}
	for _, host := range list.Items {
		made.hosts[host.Name] = host
	}
	return made, nil
}

// createHost creates a host as BMO leaves it after the inspection. A given state replaces available.
func createHost(ctx context.Context, c client.Client, number int, state bmov1alpha1.ProvisioningState) error {
	host := build.Host(hostName(number), build.Available(), build.State(state),
		build.Finalizers(bmov1alpha1.BareMetalHostFinalizer),
		build.Labels(map[string]string{"example.com/rack": fmt.Sprint(number % 10)}),
		build.Annotations(map[string]string{"example.com/asset": fmt.Sprint(number)}))
	host.Status.HardwareDetails = build.Inspection(host.Name, number)
	if err := build.CreateWithStatus(ctx, c, host); err != nil {
		return err
	}
	// BMO owns the credentials of inspected hosts.
	return c.Create(ctx, build.ControllerSecret(host, build.OwnedBy(host)))
}

func (f *fixture) createMachines(ctx context.Context, count int) error {
	label := build.Labels(map[string]string{clusterv1.ClusterNameLabel: clusterName})
	if err := inParallel(count, func(number int) error {
		// Bootstrap data has an owner, as from a bootstrap provider. Without one, the manager labels it for a move.
		secret := build.BootstrapSecret(machineName(number), build.CloudConfig, []byte("#cloud-config"), label,
			build.OwnedBy(f.cluster))
		return f.client.Create(ctx, secret)
	}); err != nil {
		return fmt.Errorf("creating bootstrap data: %w", err)
	}
	owners := make([]*clusterv1.Machine, count)
	for number := range owners {
		owners[number] = build.Machine(machineName(number), clusterName, build.OwnedBy(f.cluster))
	}
	start := time.Now()
	if err := inParallel(count, func(number int) error { return f.client.Create(ctx, owners[number]) }); err != nil {
		return fmt.Errorf("creating Machines: %w", err)
	}
	f.creation = time.Since(start)
	for number, owner := range owners {
		machine := build.Metal3Machine(machineName(number), clusterName, build.OwnedBy(owner))
		machine.Spec.Image.DiskFormat = "qcow2"
		f.machines = append(f.machines, machine)
	}
	return nil
}

// createInfrastructure creates the Metal3Cluster.
func (f *fixture) createInfrastructure(ctx context.Context) error {
	if err := f.client.Create(ctx, build.Metal3Cluster(clusterName, build.OwnedBy(f.cluster))); err != nil {
		return fmt.Errorf("creating the Metal3Cluster: %w", err)
	}
	return nil
}

// inParallel calls a function for each number below a count, several at a time and in order.
func inParallel(count int, do func(number int) error) error {
	var work errgroup.Group
	work.SetLimit(writers)
	for number := range count {
		work.Go(func() error { return do(number) })
	}
	return work.Wait()
}
