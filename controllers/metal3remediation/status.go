package metal3remediation

import (
	"fmt"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
)

type condition = flow.Condition[*scope]

var (
	rebooted = condition{
		Type: infrav1.HostRebootedCondition, Initial: infrav1.PoweringOffReason, Failed: infrav1.RebootFailedReason,
		Done: func(s *scope) flow.Reached {
			return flow.Reached{
				Reason: infrav1.HostRebootedReason, Message: fmt.Sprintf("BareMetalHost %s is powered on again", s.host.Name),
			}
		},
	}
	restored = condition{
		Type: infrav1.NodeRestoredCondition, Initial: infrav1.WaitingForRebootReason, Failed: infrav1.RestoreFailedReason,
		Done: func(s *scope) flow.Reached {
			node, reached := s.owner.Status.NodeRef.Name, flow.Reached{Reason: infrav1.NodeRestoredReason}
			reached.Message = fmt.Sprintf("Node %s has its annotations, labels and taints again. A MachineHealthCheck "+
				"deletes this object once the Machine is healthy.", node)
			if s.grace > 0 {
				end := s.record.LastRemediated.Add(s.limits.Timeout + s.grace)
				reached.Message = fmt.Sprintf("Node %s is ready after the timeout. The next step waits for the "+
					"MachineHealthCheck until %s.", node, end.UTC().Format(time.RFC3339))
			}
			return reached
		},
	}
	deleting = condition{
		Type: infrav1.DeletingCondition, Initial: infrav1.DeletingReason, Failed: infrav1.ReleaseFailedReason,
		Done: func(*scope) flow.Reached { return flow.Reached{Reason: infrav1.RemediationUndoneReason} },
	}
)

func announce() flow.Announcement {
	return flow.Milestones([]string{infrav1.ReadyCondition, clusterv1.NotPausedReason}, []string{
		infrav1.InvalidStrategyReason, infrav1.MachineMissingReason, infrav1.Metal3MachineMissingReason,
		infrav1.HostMissingReason, infrav1.HostOfflineReason, infrav1.HostNotReportedReason, infrav1.HostWithheldReason,
		infrav1.ManagementClusterAtRiskReason, infrav1.IronicEndpointAtRiskReason, infrav1.RebootFailedReason,
		infrav1.RetriesExhaustedReason, infrav1.RestoreFailedReason, infrav1.ReleaseFailedReason,
	})
}

// setStatus copies the record to the status. The phase of a blocked remediation is Failed. The phase without a host is
// not recorded, because the host may be restored.
func setStatus(s *scope, results flow.Results) {
	if s.isStopped() {
		return
	}
	status := &s.request.Status
	status.Phase, status.RetryCount = s.record.Phase, s.record.RetryCount
	status.LastRemediated = s.record.LastRemediated
	if remediation.IsLost(s.subject()) {
		status.Phase = infrav1.RemediationDeletingMachine
	}
	if result, known := results.Of(infrav1.HostRebootedCondition); known && result.IsBlocked() {
		status.Phase = infrav1.RemediationFailed
	}
}
