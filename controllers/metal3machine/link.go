package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// linkNode connects the machine with its node and publishes the provider ID.
func (r *Reconciler) linkNode(ctx context.Context, s *scope) (outcome.Outcome, error) {
	duplicate, err := r.duplicateProviderID(ctx, s)
	if err != nil {
		return outcome.Done(), err
	}
	if !duplicate.IsDone() {
		return s.record(infrav1.NodeLinkedCondition, duplicate), nil
	}
	plan, err := r.planLink(ctx, s)
	if errors.Is(err, workload.ErrUnreachable) {
		return s.record(infrav1.NodeLinkedCondition, unreachable(s)), nil
	}
	if err != nil {
		return outcome.Done(), err
	}
	if plan.Patch != "" {
		if err := r.Nodes.SetProviderID(ctx, client.ObjectKeyFromObject(s.cluster), plan.Patch, s.providerID()); err != nil {
			return outcome.Done(), err
		}
	}
	if plan.Provisioned {
		s.publish()
	}
	return s.record(infrav1.NodeLinkedCondition, plan.Outcome), nil
}

func (r *Reconciler) planLink(ctx context.Context, s *scope) (host.LinkPlan, error) {
	cluster := client.ObjectKeyFromObject(s.cluster)
	if r.nodeWatch != nil {
		if err := r.Nodes.Watch(ctx, cluster, r.nodeWatch); err != nil {
			return host.LinkPlan{}, err
		}
	}
	query := workload.OfHost(s.host)
	query.ProviderID = s.providerID()
	facts, err := r.Nodes.Find(ctx, cluster, query)
	if err != nil {
		return host.LinkPlan{}, err
	}
	if facts.OtherHosts, err = r.otherHosts(ctx, s, facts.HostUIDs()); err != nil {
		return host.LinkPlan{}, err
	}
	return host.PlanLink(facts, host.Linking{
		ProviderID:    s.providerID(),
		CloudProvider: cloudProvider(s),
		BeforeNode:    beforeNode(s),
	}), nil
}

// otherHosts are those of the UIDs that belong to a host, and not to that of the machine.
func (r *Reconciler) otherHosts(ctx context.Context, s *scope, uids []string) ([]string, error) {
	var others []string
	for _, uid := range uids {
		if uid == string(s.host.UID) {
			continue
		}
		var hosts bmov1alpha1.BareMetalHostList
		withUID := client.MatchingFields{hostUIDIndex: uid}
		if err := r.Client.List(ctx, &hosts, withUID, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing hosts by UID: %w", err)
		}
		if len(hosts.Items) > 0 {
			others = append(others, uid)
		}
	}
	return others, nil
}

// unreachable is the answer while the workload cluster cannot be asked. A machine that nobody else connects with its
// node is complete as soon as its host is.
//
// A machine that was linked stays linked: an API server that is away for a moment does not cut a node off its machine.
func unreachable(s *scope) outcome.Outcome {
	if beforeNode(s) {
		s.publish()
	}
	if conditions.IsTrue(s.machine, infrav1.NodeLinkedCondition) {
		return outcome.Done()
	}
	return outcome.Waiting(infrav1.WorkloadClusterUnreachableReason, fmt.Sprintf(
		"Waiting for the API server of Cluster %s to answer", s.cluster.Name))
}

// publish gives the machine its provider ID and says that it is provisioned. Both go together: after a move a set
// provider ID is the only sign that the machine was provisioned.
func (s *scope) publish() {
	s.machine.Spec.ProviderID = s.providerID()
	s.machine.Status.Initialization.Provisioned = ptr.To(true)
}

// beforeNode says whether the machine counts as provisioned before its node exists. Without a bootstrap provider nobody
// may ever label the node, so Cluster API gets the provider ID to look for.
func beforeNode(s *scope) bool {
	return s.machine.Spec.ProviderID != "" || (!s.owner.Spec.Bootstrap.ConfigRef.IsDefined() && !cloudProvider(s))
}

func cloudProvider(s *scope) bool {
	return s.infra != nil && ptr.Deref(s.infra.Spec.CloudProviderEnabled, false)
}

// duplicateProviderID stops machines that carry the provider ID of another machine, until that is gone or corrected.
func (r *Reconciler) duplicateProviderID(ctx context.Context, s *scope) (outcome.Outcome, error) {
	others, err := r.withProviderIDOf(ctx, s.machine)
	if err != nil || len(others) == 0 {
		return outcome.Done(), err
	}
	names := make([]string, 0, len(others))
	for _, other := range others {
		names = append(names, other.String())
	}
	slices.Sort(names)
	return outcome.Blocked(infrav1.ProviderIDConflictReason, fmt.Sprintf(
		"spec.providerID %s is also that of Metal3Machine %s: delete one, or correct the one that is not provisioned",
		s.machine.Spec.ProviderID, strings.Join(names, ", "))), nil
}

// withProviderIDOf are the other machines with the provider ID of a machine.
func (r *Reconciler) withProviderIDOf(ctx context.Context, machine *infrav1.Metal3Machine,
) ([]types.NamespacedName, error) {
	if machine.Spec.ProviderID == "" {
		return nil, nil
	}
	var machines infrav1.Metal3MachineList
	withSameID := client.MatchingFields{providerIDIndex: machine.Spec.ProviderID}
	if err := r.Client.List(ctx, &machines, withSameID, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing machines by provider ID: %w", err)
	}
	var others []types.NamespacedName
	for i := range machines.Items {
		if key := client.ObjectKeyFromObject(&machines.Items[i]); key != client.ObjectKeyFromObject(machine) {
			others = append(others, key)
		}
	}
	return others, nil
}
