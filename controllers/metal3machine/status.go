package metal3machine

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

// stages are the conditions that Ready sums up, in the order in which a machine passes them.
func stages() []string {
	return []string{
		infrav1.HostAssociatedCondition,
		infrav1.DataReadyCondition,
		infrav1.HostProvisionedCondition,
		infrav1.NodeLinkedCondition,
	}
}

// announce says which changes become events. Waiting for what every new machine waits for is not news.
func announce() flow.Announcement {
	quiet := []string{
		infrav1.ReadyCondition, infrav1.DataReadyCondition,
		infrav1.WaitingForMachineReason, infrav1.WaitingForInfrastructureReason, infrav1.WaitingForMetal3ClusterReason,
		infrav1.WaitingForBootstrapDataReason, infrav1.WaitingForHostReason, infrav1.WaitingForHostProvisionedReason,
		infrav1.WaitingForIronicSecretReason, clusterv1.NotPausedReason,
	}
	trouble := []string{
		infrav1.BootstrapDataInvalidReason, infrav1.NoHostAvailableReason, infrav1.InvalidHostSelectorReason,
		infrav1.InvalidSpecReason, infrav1.HostLostReason, infrav1.DataFailedReason, infrav1.HostErrorReason,
		infrav1.ProviderIDConflictReason, infrav1.IronicEndpointInvalidReason,
	}
	milestones := flow.Milestones(quiet, trouble)
	return func(before *metav1.Condition, after metav1.Condition) string {
		if after.Type == infrav1.DataAssociatedCondition {
			// What it repeats is announced already.
			return ""
		}
		return milestones(before, after)
	}
}

// setStatus reports what the reconcile saw. It is the only writer of the status besides publish.
func setStatus(s *scope) {
	flow.SetPaused(s.machine, s.paused)
	if s.paused {
		return
	}
	setDeleting(s)
	if s.machine.DeletionTimestamp.IsZero() {
		setAssociated(s)
		setDataReady(s)
		setProvisioned(s)
		setLinked(s)
	}
	flow.SetReady(s.machine, stages()...)
	setHostStatus(s)
}

func setAssociated(s *scope) {
	done := flow.Reached{Reason: infrav1.HostAssociatedReason}
	if previous := conditions.Get(s.machine, infrav1.HostAssociatedCondition); previous != nil &&
		previous.Status == metav1.ConditionTrue {
		done = flow.Reached{Reason: previous.Reason, Message: previous.Message}
	}
	if s.claimed.Host != nil {
		done = flow.Reached{Reason: claimReason(s.claimed), Message: s.claimed.Message}
	}
	flow.SetStage(s.machine, infrav1.HostAssociatedCondition, s.reached, done, infrav1.WaitingForMachineReason)
}

func claimReason(choice host.Choice) string {
	if choice.Reused {
		return infrav1.HostAssociatedViaNodeReuseReason
	}
	return infrav1.HostAssociatedReason
}

func setDataReady(s *scope) {
	reason := infrav1.DataExternalReason
	if s.machine.Spec.DataTemplate != nil {
		reason = infrav1.DataReadyReason
	}
	flow.SetStage(s.machine, infrav1.DataReadyCondition, s.reached, flow.Reached{Reason: reason},
		infrav1.WaitingForHostReason)
	repeated := *conditions.Get(s.machine, infrav1.DataReadyCondition)
	repeated.Type = infrav1.DataAssociatedCondition
	conditions.Set(s.machine, repeated)
}

func setProvisioned(s *scope) {
	flow.SetStage(s.machine, infrav1.HostProvisionedCondition, s.reached, provisioned(s), infrav1.WaitingForHostReason)
}

// provisioned is what is said of a host that is provisioned. One that gets into trouble remains so, but the reason
// changes, which makes it an event.
func provisioned(s *scope) flow.Reached {
	done := flow.Reached{Reason: infrav1.HostProvisionedReason}
	if s.host == nil {
		return done
	}
	var troubled bool
	if done.Message, troubled = host.Running(s.host); troubled {
		done.Reason = infrav1.HostErrorReason
	}
	return done
}

func setLinked(s *scope) {
	flow.SetStage(s.machine, infrav1.NodeLinkedCondition, s.reached,
		flow.Reached{Reason: infrav1.NodeLinkedReason, Message: "The node carries the provider ID"},
		infrav1.WaitingForHostProvisionedReason)
}

func hostMessage(s *scope, what string) string {
	if s.host == nil {
		return ""
	}
	return "Host " + s.host.Name + " " + what
}

func setDeleting(s *scope) {
	if s.machine.DeletionTimestamp.IsZero() {
		return
	}
	condition := metav1.Condition{
		Type: infrav1.DeletingCondition, Status: metav1.ConditionTrue, Reason: infrav1.DeletingReason,
	}
	result, seen := s.reached[infrav1.DeletingCondition]
	switch {
	case !seen && conditions.Has(s.machine, infrav1.DeletingCondition):
		// Something failed on the way and is tried again. What was said before is still true.
		return
	case seen && result.IsDone():
		condition.Reason, condition.Message = infrav1.HostReleasedReason, hostMessage(s, "is released")
	case seen:
		condition.Reason, condition.Message = result.Reason, result.Message
	}
	conditions.Set(s.machine, condition)
}

// setHostStatus reports the host. A machine without one keeps what it last knew: after a move the host may arrive later
// than its machine.
func setHostStatus(s *scope) {
	if s.host == nil {
		return
	}
	status := &s.machine.Status
	if addresses := host.Addresses(s.host); addresses != nil {
		status.Addresses = addresses
	}
	status.FailureDomain = s.host.Labels[infrav1.FailureDomainLabel]
	setGiven(s)
	if s.data != nil {
		status.RenderedData = &infrav1.Metal3ObjectRef{Name: s.data.Name, Namespace: s.data.Namespace}
	}
}
