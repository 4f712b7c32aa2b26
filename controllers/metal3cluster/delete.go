package metal3cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// deletion returns the stages of a deletion. Before a pause has ended for the hosts, the Machines of the Cluster cannot
// be deleted. So the gate is closed again, and the Ironic endpoint is verified.
func (r *Reconciler) deletion(s *scope) []flow.Stage[*scope] {
	stages := []flow.Stage[*scope]{
		deleting.Stage(waitForMachines),
		deleting.Stage(r.releaseReservations),
		deleting.DropFinalizer(s.infra, infrav1.ClusterFinalizer),
	}
	if s.cluster == nil {
		return stages
	}
	return slices.Concat([]flow.Stage[*scope]{
		readyForMove.Stage(keepGate),
		ironicReady.Stage(fence),
		readyForMove.Stage(r.endHandover),
		ironicReady.Stage(r.findSecret),
		ironicReady.Stage(r.checkIronic),
		ironicReady.Stage(awaitClaim),
	}, stages)
}

// findSecret reads the Secret of the endpoint, and creates none: new credentials would not be those of the nodes.
func (r *Reconciler) findSecret(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.infra.Spec.Ironic == nil {
		return outcome.Done(), nil
	}
	material, found, err := r.Secrets.Find(ctx, s.infra, s.cluster.Name)
	s.secretProblem, s.material = !found.IsDone(), material
	return found, err
}

func waitForMachines(_ context.Context, s *scope) (outcome.Outcome, error) {
	isOurs := func(machine *clusterv1.Machine) bool {
		return machine.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name
	}
	if !slices.ContainsFunc(s.move.Machines, isOurs) {
		return outcome.Done(), nil
	}
	return outcome.Waiting(infrav1.WaitingForMachinesReason,
		fmt.Sprintf("Waiting for the Machines of Cluster %s to be deleted", s.cluster.Name)), nil
}

// releaseReservations releases the hosts that node reuse reserves for the Cluster, after its Machines are deleted. It
// waits until hosts that were paused for a move are resumed. After an error, it continues with the next host.
func (r *Reconciler) releaseReservations(ctx context.Context, s *scope) (outcome.Outcome, error) {
	cluster := ownerCluster(s.infra)
	if cluster == "" {
		return outcome.Done(), nil
	}
	hosts, err := r.Hosts.LiveHosts(ctx, s.infra.Namespace)
	if err != nil {
		return outcome.Done(), err
	}
	var failures []error
	var paused []string
	for _, current := range hosts {
		released, reserved := host.WithoutReservation(current, s.infra.Namespace, cluster)
		if s.awaitsResume(current, cluster) {
			paused = append(paused, current.Name)
		}
		if !reserved {
			continue
		}
		if _, err := r.Hosts.Write(ctx, current, released); client.IgnoreNotFound(err) != nil {
			failures = append(failures, fmt.Errorf("releasing BareMetalHost %s, reserved for Cluster %s: %w",
				current.Name, cluster, err))
		}
	}
	if len(paused) > 0 && len(failures) == 0 {
		return outcome.Waiting(infrav1.WaitingForHostsReason, fmt.Sprintf("Waiting until BareMetalHost %s, reserved for "+
			"Cluster %s, is no longer paused for a move: see its annotation %s", pivot.Enumerate(paused), cluster,
			infrav1.PauseReasonAnnotation)), nil
	}
	return outcome.Done(), errors.Join(failures...)
}

// awaitsResume returns true for a reserved host that the manager will resume, because the Cluster runs here.
func (s *scope) awaitsResume(current *bmov1alpha1.BareMetalHost, cluster string) bool {
	return s.cluster != nil && s.standing != pivot.Superseded &&
		host.IsReservedWhilePaused(current, s.infra.Namespace, cluster)
}
