package metal3cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// keepGate sets the annotation block-move. clusterctl respects it only if it exists before the Cluster is paused.
func keepGate(_ context.Context, s *scope) (outcome.Outcome, error) {
	endMove(s.infra)
	metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.BlockMoveAnnotation, "")
	return outcome.Done(), nil
}

// openGate removes block-move once the move would lose no object, and the status does not report an Ironic endpoint
// that answers: the object may become a leftover, whose status would be valid again when the cluster moves back.
//
// During a move without block-move, openGate does not check obstacles: in the source cluster clusterctl copies and
// deletes the objects, and in the target cluster they arrive one by one. It checks a Cluster that never ran, which has
// no block-move either.
func (r *Reconciler) openGate(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.cluster == nil || !ptr.Deref(s.cluster.Spec.Paused, false) {
		return outcome.Done(), nil
	}
	if err := r.readObstacles(ctx, s); err != nil {
		return outcome.Done(), fmt.Errorf("the move waits: %w", err)
	}
	gated := s.waitsAtGate()
	if gated || !pivot.EpochOf(s.infra).IsMove() {
		if waits, err := r.mayOpen(ctx, s); err != nil || !waits.IsDone() {
			return waits, err
		}
	}
	if !gated {
		return outcome.Done(), r.announceHandover(ctx, s, true)
	}
	waits, err := r.depart(ctx, s)
	if err != nil {
		return outcome.Done(), fmt.Errorf("the move waits: %w", err)
	}
	if waits != "" {
		return outcome.Waiting(infrav1.WaitingForHostsReason, waits).WithAfter(blockedInterval), nil
	}
	r.warnOfHandover(s)
	return outcome.Done(), nil
}

// mayOpen waits until the move would lose no object.
func (r *Reconciler) mayOpen(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if !s.infra.DeletionTimestamp.IsZero() {
		return outcome.Waiting(infrav1.WaitingForHostsReason,
			"The move waits: the Metal3Cluster is being deleted, and clusterctl does not move a deletion"), nil
	}
	if waits := s.moveObstacles(); waits != "" {
		return outcome.Waiting(infrav1.WaitingForHostsReason, waits).WithAfter(s.untilTrial), nil
	}
	// Secrets come last: a read costs a request, and a read from before the end of the other obstacles is too old.
	if err := r.listSecrets(ctx, s); err != nil {
		return outcome.Done(), fmt.Errorf("the move waits: %w", err)
	}
	if waits := s.moveObstacles(); waits != "" {
		return outcome.Waiting(infrav1.WaitingForHostsReason, waits).WithAfter(blockedInterval), nil
	}
	if s.infra.Spec.Ironic != nil && pivot.Verified(s.infra) {
		return outcome.Waiting(infrav1.WaitingForHostsReason,
			"The move waits until IronicEndpointReady is no longer true").WithAfter(claimDelay), nil
	}
	return outcome.Done(), nil
}

// depart records the departure, hands the endpoint over and removes block-move. Block-move still exists after an error,
// or if depart returns an obstacle.
func (r *Reconciler) depart(ctx context.Context, s *scope) (waits string, err error) {
	if err := r.recordDeparture(ctx, s); err != nil {
		return "", err
	}
	if err := r.announceHandover(ctx, s, true); err != nil {
		return "", err
	}
	// The requests take time, and a user may have requested a reboot of a host since the cache was read.
	if s.move.Hosts, err = r.Hosts.LiveHosts(ctx, s.infra.Namespace); err != nil {
		return "", err
	}
	if waits := s.moveObstacles(); waits != "" {
		return waits, nil
	}
	delete(s.infra.Annotations, infrav1.BlockMoveAnnotation)
	if err := s.pass.Save(ctx); err != nil {
		metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.BlockMoveAnnotation, "")
		return "", fmt.Errorf("removing block-move: %w", err)
	}
	return "", nil
}

// recordDeparture records the inventory for the target cluster, and the departing hosts for this cluster. It runs only
// when the gate opens: later, some hosts may not exist, and no host departs from the target cluster.
func (r *Reconciler) recordDeparture(ctx context.Context, s *scope) error {
	if err := r.listInventory(ctx, s); err != nil {
		return err
	}
	leaves := pivot.Departure{Infras: map[string]pivot.Epoch{s.infra.Name: pivot.EpochOf(s.infra)}}
	leaves.Enter(pivot.LeavingWith(s.infra.Name, s.move.Hosts, s.move.Around))
	return r.Departures.Remember(ctx, s.infra.Namespace, leaves)
}

// moveObstacles returns the message about the obstacles of the move. Empty if there are none. It records what
// clusterctl leaves behind: a label that is set during the move ends the obstacle, and clusterctl does not read it.
func (s *scope) moveObstacles() string {
	lost, waits := pivot.MayLeave(s.move)
	staying := pivot.Staying(lost)
	switch missed := s.infra.Annotations[infrav1.MoveIncompleteAnnotation]; {
	case !s.waitsAtGate():
	case len(staying) > 0:
		metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.MoveIncompleteAnnotation, pivot.Enumerate(staying))
	case missed != "":
		lost = append(lost, pivot.MoveIncomplete(s.infra, missed))
	}
	switch {
	case len(lost)+len(waits) == 0:
		return ""
	case len(lost) == 0:
		return "The move waits: " + pivot.Enumerate(waits)
	default:
		return fmt.Sprintf("The move waits: %s. Stop clusterctl and unpause the Clusters, and move again after that",
			pivot.Enumerate(append(lost, waits...)))
	}
}

// settleMove reads the obstacles of the next move, and ends the last one. After an error, it continues with the next
// task.
func (r *Reconciler) settleMove(ctx context.Context, s *scope) (outcome.Outcome, error) {
	_, err := r.endHandover(ctx, s)
	return outcome.Done(), errors.Join(r.readObstacles(ctx, s), r.readSecrets(ctx, s), err)
}

// endHandover ends the handover and removes the record of the departure after a move. For both, the Cluster must run
// here, and no other management cluster may have claimed it. Otherwise the Ironic of this management cluster must not
// reclaim the VIP.
func (r *Reconciler) endHandover(ctx context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.standing == pivot.Superseded:
		return outcome.Done(), r.announceHandover(ctx, s, true)
	case s.infra.Spec.Ironic != nil && !s.isClaimProbed:
		return outcome.Done(), nil
	}
	// The Ironic of the management cluster may hold the VIP again.
	return outcome.Done(), errors.Join(r.announceHandover(ctx, s, false), r.forgetDeparture(ctx, s))
}

// forgetDeparture removes the record of the departure, after it has stored the epoch that ends the move. It costs a
// request once for each epoch and process, and one in each reconcile while hosts are paused for a move.
func (r *Reconciler) forgetDeparture(ctx context.Context, s *scope) error {
	key, epoch := client.ObjectKeyFromObject(s.infra), pivot.EpochOf(s.infra)
	if done, known := r.forgotten.Load(key); epoch == 0 || known && done == epoch {
		return nil
	}
	if err := s.pass.Save(ctx); err != nil {
		return err
	}
	if err := r.Departures.Forget(ctx, s.infra, s.move.Hosts); err != nil {
		return err
	}
	isPaused := func(host *bmov1alpha1.BareMetalHost) bool {
		return host.Annotations[bmov1alpha1.PausedAnnotation] == infrav1.HostPausedByProvider
	}
	if !slices.ContainsFunc(s.move.Hosts, isPaused) {
		r.forgotten.Store(key, epoch)
	}
	return nil
}

func (r *Reconciler) announceHandover(ctx context.Context, s *scope, handedOver bool) error {
	if s.infra.Spec.Ironic == nil || s.infra.Spec.Ironic.ClusterID == "" {
		return nil
	}
	return r.Handover.Tell(ctx, s.infra.Spec.Ironic.ClusterID, handedOver)
}
