package metal3machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// linkNode sets the provider ID on the Node and on the machine.
func (r *Reconciler) linkNode(ctx context.Context, s *scope) (outcome.Outcome, error) {
	duplicate, err := r.duplicateProviderID(ctx, s)
	if err != nil || !duplicate.IsDone() {
		return duplicate, err
	}
	plan, err := r.planLink(ctx, s)
	if errors.Is(err, workload.ErrUnreachable) {
		plan, err = r.unreachable(ctx, s), nil
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
	if err := s.pass.Save(ctx); err != nil {
		return plan.Outcome, err
	}
	if plan.Provisioned {
		s.machine.Status.Initialization.Provisioned = ptr.To(true)
	}
	return plan.Outcome, nil
}

func (r *Reconciler) planLink(ctx context.Context, s *scope) (host.LinkPlan, error) {
	cluster := client.ObjectKeyFromObject(s.cluster)
	if r.nodeWatch != nil {
		if err := r.Nodes.Watch(ctx, cluster, r.nodeWatch(cluster)); err != nil {
			return host.LinkPlan{}, err
		}
	}
	query := workload.OfHost(s.host)
	query.ProviderID = s.providerID()
	facts, err := r.Nodes.Find(ctx, cluster, query)
	if err != nil {
		return host.LinkPlan{}, err
	}
	if err := r.addHosts(ctx, s, &facts); err != nil {
		return host.LinkPlan{}, err
	}
	return host.PlanLink(facts, host.Linking{
		ProviderID:    s.providerID(),
		HostUID:       string(s.host.UID),
		Since:         host.ProvisionedSince(s.host, s.machine.CreationTimestamp.Time),
		CloudProvider: cloudProvider(s),
		BeforeNode:    beforeNode(s),
	}), nil
}

// addHosts completes the facts about Nodes that were found by host name from the BareMetalHosts.
func (r *Reconciler) addHosts(ctx context.Context, s *scope, facts *host.NodeFacts) error {
	if !facts.OnlyByHostname() {
		return nil
	}
	var err error
	if facts.OtherHosts, err = r.otherHosts(ctx, s, facts.HostUIDs()); err != nil {
		return err
	}
	for _, hostname := range byHostname(s.host) {
		var hosts bmov1alpha1.BareMetalHostList
		if err := r.Client.List(ctx, &hosts, client.InNamespace(s.machine.Namespace),
			client.MatchingFields{hostnameIndex: hostname}, client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing BareMetalHosts by host name: %w", err)
		}
		facts.SharedHostname = len(hosts.Items) > 1
	}
	return nil
}

func (r *Reconciler) otherHosts(ctx context.Context, s *scope, uids []string) ([]string, error) {
	var others []string
	for _, uid := range uids {
		if uid == string(s.host.UID) {
			continue
		}
		var hosts bmov1alpha1.BareMetalHostList
		withUID := client.MatchingFields{hostUIDIndex: uid}
		if err := r.Client.List(ctx, &hosts, withUID, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing BareMetalHosts by UID: %w", err)
		}
		if len(hosts.Items) > 0 {
			others = append(others, uid)
		}
	}
	return others, nil
}

// unreachable returns the plan while the API server of the workload cluster does not answer. A machine that counts as
// provisioned before its Node is provisioned with its host. A machine with a provider ID and a nodeRef stays linked.
func (r *Reconciler) unreachable(ctx context.Context, s *scope) host.LinkPlan {
	plan := host.LinkPlan{Provisioned: beforeNode(s)}
	if s.machine.Spec.ProviderID == "" || !s.owner.Status.NodeRef.IsDefined() {
		plan.Outcome = r.Nodes.WaitForAPIServer(ctx, client.ObjectKeyFromObject(s.cluster))
	}
	return plan
}

// publish sets the provider ID, which must be stored before status.initialization.provisioned. A move keeps only the
// provider ID, which then shows that the machine was provisioned. It also copies the failure domain of the Machine to
// the spec: Cluster API overwrites the failure domain of the Machine with that of a provisioned Metal3Machine.
func (s *scope) publish() {
	s.machine.Spec.ProviderID = s.providerID()
	if !ptr.Deref(s.machine.Status.Initialization.Provisioned, false) {
		s.machine.Spec.FailureDomain = s.failureDomain()
	}
}

// beforeNode returns true if the machine counts as provisioned before its Node exists. Without a bootstrap provider,
// the Node may have no label, and Cluster API requires the provider ID to find it.
func beforeNode(s *scope) bool {
	return s.machine.Spec.ProviderID != "" || (!s.owner.Spec.Bootstrap.ConfigRef.IsDefined() && !cloudProvider(s))
}

func cloudProvider(s *scope) bool {
	return s.infra != nil && ptr.Deref(s.infra.Spec.CloudProviderEnabled, false)
}

// duplicateProviderID blocks machines with the same provider ID until one is deleted or corrected. It ignores other
// namespaces, so that their users cannot block the machine.
func (r *Reconciler) duplicateProviderID(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.machine.Spec.ProviderID == "" {
		return outcome.Done(), nil
	}
	var machines infrav1.Metal3MachineList
	if err := r.Client.List(ctx, &machines, client.InNamespace(s.machine.Namespace),
		client.MatchingFields{providerIDIndex: s.machine.Spec.ProviderID}, client.UnsafeDisableDeepCopy); err != nil {
		return outcome.Done(), fmt.Errorf("listing Metal3Machines by provider ID: %w", err)
	}
	var others []string
	for i := range machines.Items {
		if key := client.ObjectKeyFromObject(&machines.Items[i]); key != s.key() {
			others = append(others, key.String())
		}
	}
	if len(others) == 0 {
		return outcome.Done(), nil
	}
	slices.Sort(others)
	return outcome.Blocked(infrav1.ProviderIDConflictReason, fmt.Sprintf(
		"Metal3Machine %s has the same spec.providerID %s: delete one, or correct the one that is not provisioned",
		strings.Join(others, ", "), s.machine.Spec.ProviderID)), nil
}
