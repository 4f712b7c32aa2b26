package metal3cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// Reasons of the events of a pause.
const (
	eventMoveBegan  = "MoveBegan"
	eventHandedOver = "IronicHandedOver"
)

// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machinesets;machinedeployments,verbs=get;list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=metal3dataclaims;metal3datas,verbs=get;list;watch

// waitsAtGate returns true while clusterctl waits for the removal of block-move from a paused Cluster.
func (s *scope) waitsAtGate() bool {
	_, gated := s.infra.Annotations[infrav1.BlockMoveAnnotation]
	return gated && s.cluster != nil && ptr.Deref(s.cluster.Spec.Paused, false)
}

// pausedSince returns the earliest time in the condition Paused of the paused Clusters and of the Metal3Cluster. Before
// any of them reports the pause, it returns the current time: the gate must not open without a time, and Cluster API
// sets no condition while its manager is down. A Metal3Cluster that is paused itself does not count: its pause may be
// older.
func (s *scope) pausedSince(now time.Time) time.Time {
	first := now
	consider := func(paused *metav1.Condition) {
		if paused != nil && paused.Status == metav1.ConditionTrue && paused.LastTransitionTime.Time.Before(first) {
			first = paused.LastTransitionTime.Time
		}
	}
	for _, cluster := range s.move.Clusters {
		if ptr.Deref(cluster.Spec.Paused, false) {
			consider(conditions.Get(cluster, clusterv1.PausedCondition))
		}
	}
	own := conditions.Get(s.infra, clusterv1.PausedCondition)
	if own != nil && own.Reason == clusterv1.PausedReason && flow.Paused(nil, s.infra) == "" {
		consider(own)
	}
	return first
}

// beginMove raises the epoch when the Cluster was paused. The gate stays closed until the hosts have the epoch. A pause
// by a user also begins a move, so the event is a warning. The epoch of a superseded Metal3Cluster does not rise: with
// a higher one it would take the cluster back after the pause, and only a user decides that, with a takeover.
func (r *Reconciler) beginMove(_ context.Context, s *scope) (outcome.Outcome, error) {
	epoch := pivot.EpochOf(s.infra)
	begun := pivot.Depart(epoch, s.move.Around)
	if !s.waitsAtGate() || begun == epoch || supersedingClaim(s.infra) != nil {
		return outcome.Done(), nil
	}
	metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.MoveEpochAnnotation, begun.String())
	r.Recorder.Eventf(s.infra, nil, corev1.EventTypeWarning, eventMoveBegan, "Move", "Cluster %s is paused, so its "+
		"BareMetalHosts are paused for a move, and BMO does not manage them. If no move is wanted, unpause the Cluster",
		s.cluster.Name)
	return outcome.Waiting(infrav1.WaitingForHostsReason,
		"The move waits until the hosts have the epoch of the move").WithAfter(claimDelay), nil
}

// warnOfHandover emits an event when the gate opens, because the same stage hands the endpoint over.
func (r *Reconciler) warnOfHandover(s *scope) {
	if s.infra.Spec.Ironic == nil {
		return
	}
	r.Recorder.Eventf(s.infra, nil, corev1.EventTypeWarning, eventHandedOver, "Move", "Cluster %s is paused. The "+
		"management Ironic keeps the VIP while it holds it. If it loses the VIP, it does not reclaim it until the Cluster "+
		"is unpaused",
		s.cluster.Name)
}

// endMove sets the epoch of a running Cluster, and removes the annotations of the move. If the gate never opened, no
// object was moved, and some hosts may lack the epoch.
func endMove(infra *infrav1.Metal3Cluster) {
	delete(infra.Annotations, infrav1.MoveInventoryAnnotation)
	delete(infra.Annotations, infrav1.MoveIncompleteAnnotation)
	epoch := pivot.EpochOf(infra)
	if !epoch.IsMove() {
		return
	}
	if _, gated := infra.Annotations[infrav1.BlockMoveAnnotation]; !gated {
		metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.ArrivalEpochAnnotation, epoch.String())
	}
	metav1.SetMetaDataAnnotation(&infra.ObjectMeta, infrav1.MoveEpochAnnotation, epoch.Unpaused().String())
}

// listInventory records the objects of the Cluster, so that the target cluster can detect leftovers of an earlier move,
// and the plugin the objects that are missing after an interrupted one. It reads the cache.
func (r *Reconciler) listInventory(ctx context.Context, s *scope) error {
	inventory := pivot.Inventory{}
	for _, machine := range s.move.Machines {
		if machine.Spec.ClusterName == s.cluster.Name {
			inventory.Add("Machine", machine.Name)
		}
	}
	for _, object := range s.move.Naming {
		machine, is := object.(*infrav1.Metal3Machine)
		if is && machine.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name {
			inventory.Add("Metal3Machine", machine.Name)
		}
	}
	for kind, list := range map[string]client.ObjectList{
		"MachineSet":        partial(clusterv1.GroupVersion.WithKind("MachineSetList")),
		"MachineDeployment": partial(clusterv1.GroupVersion.WithKind("MachineDeploymentList")),
		"Metal3DataClaim":   &infrav1.Metal3DataClaimList{},
		"Metal3Data":        &infrav1.Metal3DataList{},
	} {
		if err := r.each(ctx, s, list, func(object metav1.Object) {
			if object.GetLabels()[clusterv1.ClusterNameLabel] == s.cluster.Name {
				inventory.Add(kind, object.GetName())
			}
		}); err != nil {
			return err
		}
	}
	metav1.SetMetaDataAnnotation(&s.infra.ObjectMeta, infrav1.MoveInventoryAnnotation, inventory.String())
	return nil
}
