package metal3remediation

import (
	"context"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/hoststore"
)

// escalate marks the Machine for replacement by its owner after the last try failed. It first marks the host as
// unhealthy, so that no machine claims it, and powers it on, because the owner may keep the Machine. A host that was
// not provisioned in the last try is not unhealthy: its Machine waited, for example for an address or for its image. If
// the API server refuses this write, escalate marks the Machine and returns the refusal.
func (r *Reconciler) escalate(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.record.Phase != infrav1.RemediationDeletingMachine {
		return outcome.Done(), nil
	}
	desired, cause := remediation.PowerOn(s.host), fmt.Sprintf("BareMetalHost %s was not provisioned in time", s.host.Name)
	message := fmt.Sprintf("%s, and was not rebooted. Waiting for the owner of Machine %s to replace it. If the owner "+
		"does not, delete the Machine.", cause, s.owner.Name)
	if remediation.RanBefore(s.host, s.record.LastRemediated) {
		desired = remediation.Unhealthy(desired)
		cause = fmt.Sprintf("The Machine is still unhealthy after reboots of BareMetalHost %s", s.host.Name)
		message = fmt.Sprintf("Machine %s is unhealthy after %d tries to reboot BareMetalHost %s. Waiting for its owner "+
			"to replace the Machine. If the owner does not, delete the Machine. Repair the host, then remove its "+
			"annotation %s.",
			s.owner.Name, s.record.RetryCount+1, s.host.Name, infrav1.UnhealthyAnnotation)
		if s.record.NotRebooted {
			cause = fmt.Sprintf("BareMetalHost %s was not rebooted in %d tries", s.host.Name, s.record.RetryCount+1)
		}
	}
	refused := r.write(ctx, s, desired)
	if refused != nil && !hoststore.IsRefusal(refused) {
		return outcome.Done(), refused
	}
	if err := errors.Join(refused, r.markMachine(ctx, s, cause)); err != nil {
		return outcome.Done(), err
	}
	return r.withoutFence(ctx, s, outcome.Waiting(infrav1.RetriesExhaustedReason, message))
}

// replace marks the Machine for replacement by its owner, because its host does not exist. If the host is restored, the
// remediation continues with it.
func (r *Reconciler) replace(ctx context.Context, s *scope) (outcome.Outcome, error) {
	// The record has precedence over the phase in the status.
	if err := s.save(ctx); err != nil {
		return outcome.Done(), err
	}
	cause := fmt.Sprintf("BareMetalHost %s of the Machine was deleted", s.lostHost)
	if err := r.markMachine(ctx, s, cause); err != nil {
		return outcome.Done(), err
	}
	return outcome.Waiting(infrav1.HostMissingReason, fmt.Sprintf(
		"BareMetalHost %s was deleted. Waiting for the owner of Machine %s to replace it. If the owner does not, delete "+
			"the Machine.", s.lostHost, s.owner.Name)), nil
}

// markMachine sets the condition OwnerRemediated, which MachineSets and control planes read. A MachineHealthCheck with
// a remediation template does not set it. markMachine does not change a false condition, which may have a message of
// the owner. It does not mark a healthy Machine, because its owner would remove the condition again: a
// MachineHealthCheck above its limit does not delete the remediation of a Machine that has recovered.
func (r *Reconciler) markMachine(ctx context.Context, s *scope, cause string) error {
	if conditions.IsFalse(s.owner, clusterv1.MachineOwnerRemediatedCondition) ||
		conditions.IsTrue(s.owner, clusterv1.MachineHealthCheckSucceededCondition) {
		return nil
	}
	marked := s.owner.DeepCopy()
	conditions.Set(marked, metav1.Condition{
		Type: clusterv1.MachineOwnerRemediatedCondition, Status: metav1.ConditionFalse,
		Reason:  clusterv1.MachineOwnerRemediatedWaitingForRemediationReason,
		Message: cause,
	})
	patch := client.MergeFromWithOptions(s.owner, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, marked, patch); err != nil {
		return fmt.Errorf("setting condition %s of Machine %s: %w",
			clusterv1.MachineOwnerRemediatedCondition, s.owner.Name, err)
	}
	replacements.Inc()
	return nil
}
