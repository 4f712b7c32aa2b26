package metal3cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/controlplane"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

const (
	// nodesIntervals is the number of intervals between two probes of a control plane. A probe reads caches, and costs a
	// request only to claim the cluster, to arm a node, and while the caches cannot be read.
	nodesIntervals = 5

	// nodesLimit is the time limit of a probe of a control plane.
	nodesLimit = 10 * time.Second

	// nodesNotProbed is the problem of a control plane before the first probe.
	nodesNotProbed = "its nodes were not probed yet"
)

// Reasons of events.
const (
	// nodeArmed and nodeDisarmed report that a node may hold the VIP, or must not hold it.
	nodeArmed    = "NodeArmed"
	nodeDisarmed = "NodeDisarmed"
)

// ControlPlanes reads and arms the nodes that run an Ironic endpoint.
type ControlPlanes interface {
	Read(ctx context.Context, cluster types.NamespacedName, clusterID string) (workload.ControlPlane, error)
	Arm(ctx context.Context, cluster types.NamespacedName, node string, armed bool) error
	Claim(ctx context.Context, cluster types.NamespacedName, epoch pivot.Epoch) (pivot.Claim, pivot.Standing, error)
}

// NodeProber probes the nodes of control planes that run an Ironic endpoint, and arms them.
type NodeProber struct {
	*prober[nodesTarget, nodesResult]
}

// nodesTarget is a control plane.
type nodesTarget struct {
	// infra names the Metal3Cluster, for events.
	infra *infrav1.Metal3Cluster

	cluster   types.NamespacedName
	clusterID string

	// epoch is the epoch that the cluster is claimed with.
	epoch pivot.Epoch

	// hadNodes is true if a Machine of the cluster has had a Node, so that the cluster had a kubeconfig.
	hadNodes bool

	// takeover and holder decide which nodes are armed.
	takeover infrav1.TakeoverPolicy
	holder   *infrav1.IronicHolder

	// nodes are the names of the nodes that Machines name. A new name is probed at once.
	nodes []string
}

// nodesResult is the result of one probe.
type nodesResult struct {
	// seen is nil if the control plane could not be read. It must not be changed.
	seen *workload.ControlPlane

	// epoch is the epoch that the cluster was claimed with, claim the recorded claim, and standing compares the two.
	// Standing is empty if the claim is not known.
	epoch    pivot.Epoch
	claim    pivot.Claim
	standing pivot.Standing

	// isUnproven is true if the claim failed, so that another management cluster may manage the cluster. IsPending is true
	// if the manager has not tried to connect to the workload cluster yet.
	isUnproven, isPending bool

	// problem is the error of the read or the claim of the control plane, or of arming a node.
	problem string
}

// NewNodeProber returns a prober that must be started. The interval is that of the Ironic endpoint.
func NewNodeProber(planes ControlPlanes, recorder events.EventRecorder, now clock.WithTicker, interval time.Duration,
) *NodeProber {
	return &NodeProber{newProber(probing[nodesTarget, nodesResult]{
		probe: func(ctx context.Context, _ types.NamespacedName, target nodesTarget, last *nodesResult,
		) nodesResult {
			return probeNodes(ctx, planes, recorder, target, last)
		},
		isSame: func(before, after nodesTarget) bool {
			return before.cluster == after.cluster && before.clusterID == after.clusterID
		},
		isUrgent: func(before, after nodesTarget) bool {
			return before.takeover != after.takeover || before.epoch != after.epoch || before.hadNodes != after.hadNodes ||
				!ptr.Equal(before.holder, after.holder) || !slices.Equal(before.nodes, after.nodes)
		},
		differs: nodesResult.differs,
		delay: func(result nodesResult) time.Duration {
			if result.isPending {
				return 0
			}
			return nodesIntervals * interval
		},
		limit: nodesLimit,
	}, now, interval)}
}

// differs returns true if two results are not equal.
func (r nodesResult) differs(other nodesResult) bool {
	isSameSeen := equality.Semantic.DeepEqual(r.seen, other.seen)
	r.seen, other.seen = nil, nil
	return !isSameSeen || r != other
}

// probeNodes reads a control plane. It arms the nodes of a cluster that manages itself, and disarms those of a cluster
// that was moved away from itself. A superseded management cluster arms and disarms no node.
func probeNodes(
	ctx context.Context, planes ControlPlanes, recorder events.EventRecorder, target nodesTarget, last *nodesResult,
) nodesResult {
	result, err := claimNodes(ctx, planes, target, last)
	if err != nil {
		return result
	}
	seen, err := planes.Read(ctx, target.cluster, target.clusterID)
	if err != nil {
		result.problem = describe("its nodes could not be read: ", err)
		return result
	}
	result.seen = &seen
	if result.standing == pivot.Superseded {
		return result
	}
	for i := range seen.Nodes {
		node := &seen.Nodes[i]
		arming := pivot.PlanArming(target.takeover, seen.Own, node.Armed, target.holder)
		if arming == pivot.KeepArming {
			continue
		}
		if err := planes.Arm(ctx, target.cluster, node.Name, arming == pivot.Arm); err != nil {
			result.problem = "its nodes could not be armed: " + err.Error()
			continue
		}
		node.Armed = pivot.NotArmed
		reason, note := nodeDisarmed, "Disarmed Node %s: it must not hold the Ironic endpoint of a cluster that another "+
			"cluster manages"
		if arming == pivot.Arm {
			node.Armed = pivot.ArmedByProvider
			reason, note = nodeArmed, "Armed Node %s: it may hold the Ironic endpoint, because its cluster manages itself"
		}
		recorder.Eventf(target.infra, nil, corev1.EventTypeNormal, reason, "Arm", note, node.Name)
	}
	return result
}

// describe returns the problem of a control plane that could not be read or claimed.
func describe(failed string, err error) string {
	if errors.Is(err, workload.ErrUnreachable) {
		return workload.ErrUnreachable.Error()
	}
	return failed + err.Error()
}

// readNodes reads the result of the last probe of the control plane. It returns no error if the control plane does not
// answer: the condition ReadyForMove reports this.
func (r *Reconciler) readNodes(_ context.Context, s *scope) error {
	key := client.ObjectKeyFromObject(s.infra)
	if !s.keepsIronic() || s.infra.Spec.Ironic.ClusterID == "" {
		// Another Ironic may answer after a pause. A claim does not end.
		r.Endpoints.Forget(key)
		r.Nodes.Pause(key)
		return nil
	}
	named := &infrav1.Metal3Cluster{}
	named.Namespace, named.Name, named.UID = s.infra.Namespace, s.infra.Name, s.infra.UID
	s.nodes = &nodesTarget{
		infra: named, cluster: client.ObjectKeyFromObject(s.cluster), clusterID: s.infra.Spec.Ironic.ClusterID,
		takeover: s.infra.Spec.Ironic.Takeover, nodes: s.nodesOfMachines(), epoch: pivot.EpochOf(s.infra).Unpaused(),
		hadNodes: s.hadNodes(),
	}
	result, known := r.Nodes.Last(key, *s.nodes)
	known = known && !result.isPending
	s.readStanding(result, known && result.epoch == s.nodes.epoch)
	if !known {
		s.nodesPending, s.move.NodesUnknown = true, nodesNotProbed
		return nil
	}
	s.plane, s.move.NodesUnknown = result.seen, result.problem
	if result.seen == nil {
		return nil
	}
	for _, node := range result.seen.Nodes {
		if !node.Carries {
			s.move.BareNodes = append(s.move.BareNodes, node.Name)
		}
	}
	return nil
}

// probeNodes passes the control plane to the prober, with the holder that this reconcile observed: the holder in the
// status may come from another management cluster.
func (r *Reconciler) probeNodes(s *scope) {
	if s.nodes == nil {
		return
	}
	if s.verdict != nil {
		s.nodes.holder = s.verdict.Holder
	}
	r.Nodes.Track(client.ObjectKeyFromObject(s.infra), *s.nodes)
}

// nodesOfMachines returns the sorted names of the control-plane nodes that Machines name.
func (s *scope) nodesOfMachines() []string {
	var names []string
	for _, machine := range s.move.Machines {
		if machine.Spec.ClusterName == s.cluster.Name && util.IsControlPlaneMachine(machine) {
			names = append(names, machine.Status.NodeRef.Name)
		}
	}
	slices.Sort(names)
	return names
}

// hadNodes returns true if a Machine of the Cluster has had a Node. A backup may keep no nodeRef. A Machine with a
// bootstrap configuration gets its provider ID when its Node has joined.
func (s *scope) hadNodes() bool {
	return slices.ContainsFunc(s.move.Machines, func(machine *clusterv1.Machine) bool {
		isLinked := machine.Spec.ProviderID != "" && machine.Spec.Bootstrap.ConfigRef.IsDefined()
		return machine.Spec.ClusterName == s.cluster.Name && (isLinked || machine.Status.NodeRef.IsDefined())
	})
}

func nodesStatus(seen *workload.ControlPlane) []infrav1.IronicNode {
	nodes := make([]infrav1.IronicNode, 0, len(seen.Nodes))
	for _, node := range seen.Nodes {
		nodes = append(nodes, infrav1.IronicNode{
			Name: node.Name, Armed: ptr.To(isArmed(node.Armed)), PodsReady: ptr.To(node.PodsReady), ConfigHash: node.ConfigHash,
		})
	}
	return nodes
}

// outdatedNodes returns a sentence that names the nodes with another configuration of the endpoint than a new node.
// Empty if there are none, or if spec.ironic is invalid: then no new node boots.
func (r *Reconciler) outdatedNodes(s *scope) string {
	if s.plane == nil {
		return ""
	}
	desired, err := controlplane.Hash(s.material.Endpoint(s.infra.Spec.Ironic, r.GuardImage))
	if err != nil {
		return ""
	}
	var names []string
	for _, node := range s.plane.Nodes {
		if node.ConfigHash != "" && node.ConfigHash != desired {
			names = append(names, node.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "The next rollout of the control plane updates the configuration of the endpoint on " +
		strings.Join(names, ", ")
}

func isArmed(armed pivot.Armed) bool {
	return armed == pivot.ArmedByProvider || armed == pivot.ArmedByUser
}
