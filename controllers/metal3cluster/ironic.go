package metal3cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/ironicapi"
)

// Reasons of events.
const (
	// holderChanged reports another Ironic behind the endpoint.
	holderChanged = "IronicHolderChanged"
)

// userSecretsEvery is the time between two reads of the Secrets of an endpoint, which are at most three: a change of a
// Secret with another owner causes no event.
const userSecretsEvery = 5 * time.Minute

// unownedDelay is the time until the next attempt to own the Secrets of the user. A change of the permissions is no
// event.
const unownedDelay = time.Minute

// keepsIronic returns true if the Ironic endpoint is to be verified now.
func (s *scope) keepsIronic() bool {
	return s.infra.Spec.Ironic != nil && s.cluster != nil && s.pause == ""
}

// readControlPlane reads the names of the nodes that may hold the VIP, from cached Machines and from the last probe of
// the nodes. After a move, either may be available first. It includes the nodes of all clusters that share the
// endpoint.
func (r *Reconciler) readControlPlane(ctx context.Context, s *scope) error {
	if !s.keepsIronic() {
		return nil
	}
	if s.plane != nil {
		for i := range s.plane.Nodes {
			s.controlPlane = append(s.controlPlane, s.plane.Nodes[i].Name)
		}
	}
	own, err := r.controlPlaneMachines(ctx, s.infra.Namespace, s.cluster.Name)
	if err != nil {
		return err
	}
	s.hasControlPlane = len(own) > 0
	s.addControlPlane(own, s.plane == nil)
	for i := range s.around.Clusters {
		other := &s.around.Clusters[i]
		if other.UID == s.infra.UID || other.Spec.Ironic == nil ||
			other.Spec.Ironic.ClusterID != s.infra.Spec.Ironic.ClusterID {
			continue
		}
		machines, err := r.controlPlaneMachines(ctx, other.Namespace, ownerCluster(other))
		if err != nil {
			return err
		}
		s.addControlPlane(machines, true)
	}
	return nil
}

// controlPlaneMachines reads the control-plane Machines of a Cluster, live in a namespace that is not in the cache.
func (r *Reconciler) controlPlaneMachines(ctx context.Context, namespace, cluster string) ([]clusterv1.Machine, error) {
	var machines clusterv1.MachineList
	reader := client.Reader(r.Client)
	if r.Namespace != "" && namespace != r.Namespace {
		reader = r.Live
	}
	if err := reader.List(ctx, &machines, client.InNamespace(namespace), client.UnsafeDisableDeepCopy,
		client.MatchingLabels{clusterv1.ClusterNameLabel: cluster},
		client.HasLabels{clusterv1.MachineControlPlaneLabel}); err != nil {
		return nil, fmt.Errorf("listing the control-plane Machines of Cluster %s: %w", cluster, err)
	}
	return machines.Items, nil
}

// addControlPlane adds the nodes of Machines. If Machines are the only source, a Machine without status.nodeRef may
// still have a Node.
func (s *scope) addControlPlane(machines []clusterv1.Machine, only bool) {
	for i := range machines {
		machine := &machines[i]
		if node := machine.Status.NodeRef.Name; node != "" {
			s.controlPlane = append(s.controlPlane, node)
		} else if machine.Spec.ProviderID != "" && only {
			s.nodesMissing = true
		}
	}
}

// nameHosts finds the names that the hosts of the cluster have in Ironic. It omits hosts that BMO does not register.
func nameHosts(_ context.Context, s *scope) error {
	if !s.keepsIronic() {
		return nil
	}
	for _, item := range s.move.Hosts {
		if item.Labels[clusterv1.ClusterNameLabel] == s.cluster.Name && host.Withheld(item) == "" {
			s.hosts = append(s.hosts, nameInIronic(item))
		}
	}
	return nil
}

// nameInIronic returns the name of the node of a host in Ironic.
func nameInIronic(item *bmov1alpha1.BareMetalHost) string { return item.Namespace + "~" + item.Name }

// keepSecret creates and renews the Secret that control-plane machines wait for.
func (r *Reconciler) keepSecret(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.infra.Spec.Ironic == nil {
		return outcome.Done(), nil
	}
	material, kept, err := r.Secrets.Ensure(ctx, s.infra, s.cluster.Name, s.move.Hosts)
	if errors.As(err, &s.unowned) {
		kept, err = kept.WithAfter(unownedDelay), nil
	}
	if err != nil {
		return outcome.Done(), err
	}
	s.secretProblem = !kept.IsDone()
	s.material = material
	return kept, nil
}

// checkIronic evaluates the result of the last probe of the endpoint.
func (r *Reconciler) checkIronic(_ context.Context, s *scope) (outcome.Outcome, error) {
	if s.infra.Spec.Ironic == nil {
		r.Endpoints.Forget(client.ObjectKeyFromObject(s.infra))
		return outcome.Done(), nil
	}
	described := s.infra.Spec.Ironic.Endpoint
	port := described.Port
	if port == 0 {
		port = infrav1.DefaultIronicPort
	}
	address := net.JoinHostPort(described.VirtualIPs[0], strconv.Itoa(int(port)))
	seen, known := r.Endpoints.Track(client.ObjectKeyFromObject(s.infra), endpointTarget{ironicapi.Endpoint{
		URL:       "https://" + address + "/v1/",
		Username:  string(s.material.Username),
		Password:  string(s.material.Password),
		Authority: s.material.Authority,
	}, s.missesHosts()})
	if !known {
		return outcome.Waiting(infrav1.NotYetObservedReason, "Waiting for the first probe of "+address), nil
	}
	verdict := pivot.Judge(pivot.Cluster{
		ClusterID: s.infra.Spec.Ironic.ClusterID, Address: address, Hosts: s.hosts,
		ControlPlane: s.controlPlane, Incomplete: s.nodesMissing, Before: s.holder,
	}, pivot.Sighting{
		Answer: seen.Answer, Detail: seen.Detail, Conductors: seen.Conductors, Terms: seen.Terms,
		Nodes: seen.Nodes,
	})
	s.verdict = &verdict
	if verdict.Outcome.IsDone() {
		s.nodeIDs = seen.IDs
	}
	if verdict.Outcome.IsDone() && s.infra.DeletionTimestamp.IsZero() {
		s.certificateEnds = s.factsOf(seen.Certificate).warning(r.Clock.Now())
		s.outdatedNodes = r.outdatedNodes(s)
	}
	reached := verdict.Outcome
	if s.unowned != nil && !reached.IsDone() {
		reached.Message += "; " + s.unowned.Error()
	}
	return reached, nil
}

// missesHosts returns true if hosts were missing in Ironic at the last probe.
func (s *scope) missesHosts() bool {
	status := s.infra.Status.Ironic
	return status != nil && status.KnownHosts != nil && int(*status.KnownHosts) < len(s.hosts)
}

// untilSecretsRead returns the time until the Secrets of an endpoint are read again: soon while one is missing or
// invalid, and soon after a pause.
func (r *Reconciler) untilSecretsRead(s *scope, after time.Duration) time.Duration {
	key := client.ObjectKeyFromObject(s.infra)
	if !s.secretProblem {
		r.secretProblems.Delete(key)
		if s.keepsIronic() {
			after = flow.Soonest(after, userSecretsEvery)
		}
		return after
	}
	began, _ := r.secretProblems.LoadOrStore(key, r.Clock.Now())
	since, _ := began.(time.Time)
	return flow.Soonest(after, retryInterval(r.Clock.Since(since)))
}

// announceHolder emits an event for a changed holder. It emits none while no Ironic has answered yet.
func (r *Reconciler) announceHolder(s *scope) {
	before, after := s.holder, holderOf(s.infra)
	same := before != nil && after != nil && before.Kind == after.Kind && before.Name == after.Name
	if after == nil || before == nil && after.Kind == infrav1.HolderNone || same && !restarted(before, after) {
		return
	}
	eventType := corev1.EventTypeNormal
	if after.Kind == infrav1.HolderForeign || after.Kind == infrav1.HolderNone {
		eventType = corev1.EventTypeWarning
	}
	holderChanges.WithLabelValues(string(after.Kind)).Inc()
	if same {
		r.Recorder.Eventf(s.infra, nil, eventType, holderChanged, "Observe",
			"The Ironic of %s restarted with an empty database", holderName(after))
		return
	}
	r.Recorder.Eventf(s.infra, nil, eventType, holderChanged, "Observe",
		"The holder of the Ironic endpoint changed to %s from %s", holderName(after), holderName(before))
}

// restarted returns true if both terms of a holder are known, and differ.
func restarted(before, after *infrav1.IronicHolder) bool {
	return before.Term != after.Term && before.Term != "" && after.Term != ""
}

// holderOf returns a copy of the holder in the status.
func holderOf(infra *infrav1.Metal3Cluster) *infrav1.IronicHolder {
	if infra.Status.Ironic == nil || infra.Status.Ironic.Holder == nil {
		return nil
	}
	return ptr.To(*infra.Status.Ironic.Holder)
}

func holderName(holder *infrav1.IronicHolder) string {
	switch {
	case holder == nil:
		return "an unknown holder"
	case holder.Kind == infrav1.HolderNone:
		return "no Ironic"
	default:
		return string(holder.Kind) + " " + holder.Name
	}
}
