package metal3remediation

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// turns serializes the decisions of the workers about reboots. Each decision includes the earlier ones, from the cache
// or from permitted.
type turns struct {
	mutex sync.Mutex

	// permitted holds the Machines with a permitted reboot, by Metal3Remediation, until its next reconcile. The cache
	// shows the phase Running by then.
	permitted map[types.NamespacedName]types.NamespacedName
}

// end drops the permission of a remediation. The worker of the remediation calls it.
func (t *turns) end(request types.NamespacedName) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	delete(t.permitted, request)
}

// peer is another machine of the cluster whose node is in Surroundings.
type peer struct {
	machine types.NamespacedName
	node    string
	remediation.Peer
}

// decide permits the reboot, or returns the reason to wait. It blocks while another worker decides.
func (r *Reconciler) decide(
	ctx context.Context, s *scope, around remediation.Surroundings,
) (outcome.Outcome, error) {
	peers, err := r.readPeers(ctx, s, around)
	if err != nil {
		return outcome.Done(), err
	}
	r.turns.mutex.Lock()
	defer r.turns.mutex.Unlock()
	down, err := r.downNodes(ctx, s, peers)
	if err != nil {
		return outcome.Done(), err
	}
	decision := remediation.Protect(around.WithDown(down))
	if decision.IsDone() {
		if r.turns.permitted == nil {
			r.turns.permitted = map[types.NamespacedName]types.NamespacedName{}
		}
		r.turns.permitted[client.ObjectKeyFromObject(s.request)] = client.ObjectKeyFromObject(s.owner)
	}
	return decision, nil
}

// readPeers reads the other machines of the cluster, without their remediations.
func (r *Reconciler) readPeers(ctx context.Context, s *scope, around remediation.Surroundings) ([]peer, error) {
	var machines clusterv1.MachineList
	err := r.Client.List(ctx, &machines, client.InNamespace(s.request.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Machines of Cluster %s: %w", s.cluster.Name, err)
	}
	var peers []peer
	for i := range machines.Items {
		machine := &machines.Items[i]
		node := machine.Status.NodeRef.Name
		if machine.Name == s.owner.Name || machine.Spec.ClusterName != s.cluster.Name || !around.Includes(node) {
			continue
		}
		found := peer{machine: client.ObjectKeyFromObject(machine), node: node}
		infra, err := flow.Find[infrav1.Metal3Machine](ctx, r.Client, s.named(machine.Spec.InfrastructureRef.Name))
		if err != nil {
			return nil, err
		}
		if infra != nil {
			holdings, err := r.Hosts.Holdings(ctx, client.ObjectKeyFromObject(infra), host.Recorded(infra))
			if err != nil {
				return nil, err
			}
			found.Host = holdings.Host
		}
		peers = append(peers, found)
	}
	return peers, nil
}

// downNodes returns the nodes of the peers that are down. The mutex must be locked.
func (r *Reconciler) downNodes(ctx context.Context, s *scope, peers []peer) (map[string]bool, error) {
	var requests infrav1.Metal3RemediationList
	err := r.Client.List(ctx, &requests, client.InNamespace(s.request.Namespace), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing the Metal3Remediations of Cluster %s: %w", s.cluster.Name, err)
	}
	of := map[string][]*infrav1.Metal3Remediation{}
	for i := range requests.Items {
		machine := remediation.MachineOf(&requests.Items[i])
		of[machine] = append(of[machine], &requests.Items[i])
	}
	permitted := map[types.NamespacedName]bool{}
	for _, machine := range r.turns.permitted {
		permitted[machine] = true
	}
	down := map[string]bool{}
	for _, peer := range peers {
		peer.Remediations, peer.Permitted = of[peer.machine.Name], permitted[peer.machine]
		down[peer.node] = remediation.IsDown(peer.Peer, r.Clock.Now())
	}
	return down, nil
}
