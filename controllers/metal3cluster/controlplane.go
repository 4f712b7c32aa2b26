package metal3cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const (
	// visitEvery is how often the nodes of a control plane are looked at. Nothing of what is seen there is urgent.
	visitEvery = 5 * time.Second

	// visitLimit is how long one look may keep a reconcile waiting.
	visitLimit = 3 * time.Second
)

// ControlPlanes looks at the nodes that carry an Ironic endpoint, and arms them.
type ControlPlanes interface {
	Look(ctx context.Context, cluster types.NamespacedName, clusterID string) (workload.ControlPlane, error)
	Arm(ctx context.Context, cluster types.NamespacedName, node string, armed bool) error
}

// visit is the result of the last look at a control plane.
type visit struct {
	at   time.Time
	seen *workload.ControlPlane
	// problem says why nothing was seen.
	problem string
}

// visits holds the last look at the control plane of each Metal3Cluster, so that a reconcile for another reason does
// not repeat it.
type visits struct {
	mutex sync.Mutex
	last  map[types.NamespacedName]visit
}

func (v *visits) recent(infra types.NamespacedName, now clock.PassiveClock) (visit, bool) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	last, known := v.last[infra]
	return last, known && now.Since(last.at) < visitEvery
}

func (v *visits) keep(infra types.NamespacedName, last visit) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	if v.last == nil {
		v.last = map[types.NamespacedName]visit{}
	}
	v.last[infra] = last
}

func (v *visits) forget(infra types.NamespacedName) {
	v.mutex.Lock()
	defer v.mutex.Unlock()
	delete(v.last, infra)
}

// readNodes looks at the nodes of the control plane. That nobody answers is no error: it is said where it matters.
func (r *Reconciler) readNodes(ctx context.Context, s *scope) error {
	if !s.keepsIronic() || s.infra.Spec.Ironic.ClusterID == "" {
		return nil
	}
	key := client.ObjectKeyFromObject(s.infra)
	last, recent := r.visits.recent(key, r.Clock)
	if !recent {
		last = r.visit(ctx, client.ObjectKeyFromObject(s.cluster), s.infra.Spec.Ironic.ClusterID)
		r.visits.keep(key, last)
	}
	s.plane, s.move.NodesUnknown = last.seen, last.problem
	if last.seen == nil {
		return nil
	}
	for _, node := range last.seen.Nodes {
		if !node.Carries {
			s.move.BareNodes = append(s.move.BareNodes, node.Name)
		}
	}
	return nil
}

func (r *Reconciler) visit(ctx context.Context, cluster types.NamespacedName, clusterID string) visit {
	ctx, cancel := context.WithTimeout(ctx, visitLimit)
	defer cancel()
	seen, err := r.ControlPlanes.Look(ctx, cluster, clusterID)
	switch {
	case errors.Is(err, workload.ErrUnreachable):
		return visit{at: r.Clock.Now(), problem: workload.ErrUnreachable.Error()}
	case err != nil:
		return visit{at: r.Clock.Now(), problem: "its nodes could not be read: " + err.Error()}
	default:
		return visit{at: r.Clock.Now(), seen: &seen}
	}
}

// armNodes lets the nodes of a cluster that manages itself take the endpoint, and takes that back from those of a
// cluster that was moved away from itself.
func (r *Reconciler) armNodes(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.plane == nil {
		return outcome.Done(), nil
	}
	key := client.ObjectKeyFromObject(s.cluster)
	for i := range s.plane.Nodes {
		node := &s.plane.Nodes[i]
		arming := pivot.PlanArming(s.infra.Spec.Ironic.Takeover, s.plane.Own, node.Armed, s.holder)
		if arming == pivot.KeepArming {
			continue
		}
		if err := r.ControlPlanes.Arm(ctx, key, node.Name, arming == pivot.Arm); err != nil {
			return outcome.Done(), err
		}
		// The copy that is remembered is the same one: it must not lead to the same write again.
		node.Armed = pivot.NotArmed
		if arming == pivot.Arm {
			node.Armed = pivot.ArmedByProvider
		}
		r.announceArming(s, node.Name, arming == pivot.Arm)
	}
	return outcome.Done(), nil
}

// nodesStatus is what the status says of the nodes.
func nodesStatus(seen *workload.ControlPlane) []infrav1.IronicNode {
	nodes := make([]infrav1.IronicNode, 0, len(seen.Nodes))
	for _, node := range seen.Nodes {
		nodes = append(nodes, infrav1.IronicNode{
			Name: node.Name, Armed: ptr.To(isArmed(node.Armed)), PodsReady: ptr.To(node.PodsReady), ConfigHash: node.ConfigHash,
		})
	}
	return nodes
}

func isArmed(armed pivot.Armed) bool {
	return armed == pivot.ArmedByProvider || armed == pivot.ArmedByUser
}
