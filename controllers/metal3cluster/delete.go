package metal3cluster

import (
	"context"
	"errors"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

func waitForMachines(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.machines == 0 {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.WaitingForMachinesReason,
		fmt.Sprintf("Waiting for the Machines of Cluster %s to be deleted", s.cluster.Name)), nil
}

// releaseReservations releases the hosts that node reuse reserves for the Cluster, after its Machines are deleted.
// After an error, it continues with the next host.
func (r *Reconciler) releaseReservations(ctx context.Context, s *scope) (outcome.Outcome, error) {
	cluster := ownerCluster(s.infra)
	if cluster == "" {
		return outcome.Done(), nil
	}
	hosts, err := r.Hosts.Reserved(ctx, s.infra.Namespace)
	if err != nil {
		return outcome.Done(), err
	}
	var failures []error
	for _, current := range hosts {
		released, reserved := host.WithoutReservation(current, s.infra.Namespace, cluster)
		if !reserved {
			continue
		}
		if _, err := r.Hosts.Write(ctx, current, released); client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("releasing BareMetalHost %s, reserved for Cluster %s: %w",
				current.Name, cluster, err))
		}
	}
	return outcome.Done(), errors.Join(failures...)
}

func dropFinalizer(_ context.Context, s *scope) (outcome.Outcome, error) {
	controllerutil.RemoveFinalizer(s.infra, infrav1.ClusterFinalizer)
	return outcome.Done(), nil
}
