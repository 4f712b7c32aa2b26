package metal3remediation

import (
	"context"
	"errors"
	"fmt"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/workload"
)

// pollInterval is the interval between reads of objects without events: nodes of the management cluster, Ironic pods,
// pods on a fenced Node, and objects of a cluster that does not answer.
const pollInterval = 5 * time.Second

// connectTime is the time that a try waits for the connection to a cluster, or for the permission to fence its Node,
// before it continues without a fence. It is twice the interval of the attempts to connect.
const connectTime = time.Minute

// suspending returns a stage that stops the timeout of a try while the stage is not done.
func (r *Reconciler) suspending(run func(context.Context, *scope) (outcome.Outcome, error),
) func(context.Context, *scope) (outcome.Outcome, error) {
	return func(ctx context.Context, s *scope) (outcome.Outcome, error) {
		reached, err := run(ctx, s)
		if err != nil || !reached.IsDone() {
			r.suspended.Store(client.ObjectKeyFromObject(s.request), true)
		}
		return reached, err
	}
}

// renew deletes a remediation that its MachineHealthCheck has forgotten once its try has timed out. The
// MachineHealthCheck then creates it again and reports the Machine. An invalid strategy has no timeout.
func (r *Reconciler) renew(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if !s.strategy.IsDone() || !remediation.IsForgotten(s.request, s.owner) {
		return outcome.Done(), nil
	}
	now := r.Clock.Now()
	due := s.request.CreationTimestamp.Add(s.limits.Timeout)
	if left := max(r.resumed(s).Left(s.limits.Timeout, now), due.Sub(now)); left > 0 {
		return outcome.Done().WithAfter(left), nil
	}
	controllerutil.AddFinalizer(s.request, infrav1.RemediationFinalizer)
	if err := s.save(ctx); err != nil {
		return outcome.Done(), err
	}
	if err := r.Client.Delete(ctx, s.request.DeepCopy(), client.Preconditions{UID: &s.request.UID}); err != nil {
		return outcome.Done(), fmt.Errorf("deleting Metal3Remediation %s: %w", s.request.Name, err)
	}
	return outcome.Waiting(infrav1.HealthCheckReportMissingReason, fmt.Sprintf(
		"Machine %s has no current condition %s, for example after clusterctl move. This Metal3Remediation is deleted, "+
			"and the MachineHealthCheck creates it again.", s.owner.Name, clusterv1.MachineHealthCheckSucceededCondition)), nil
}

// checkFacts waits for the objects and states that a reboot requires.
func (r *Reconciler) checkFacts(_ context.Context, s *scope) (outcome.Outcome, error) {
	if !s.strategy.IsDone() {
		return s.strategy, nil
	}
	return remediation.Check(s.subject()), nil
}

// withheld returns the reason why BMO does not act on a host. Empty means that BMO does.
func withheld(current *bmov1alpha1.BareMetalHost) string {
	if current == nil {
		return ""
	}
	if reason := host.Withheld(current); reason != "" {
		return reason
	}
	if _, paused := current.Annotations[bmov1alpha1.PausedAnnotation]; paused {
		return "is paused until the move of its Cluster ends"
	}
	if current.Status.OperationalStatus == bmov1alpha1.OperationalStatusServicing {
		return "is being serviced: BMO writes its firmware or its settings, and powers it after that"
	}
	return ""
}

// resumed returns the record, whose try begins again if it was suspended.
func (r *Reconciler) resumed(s *scope) remediation.Record {
	if _, suspended := r.suspended.Load(client.ObjectKeyFromObject(s.request)); suspended {
		return s.record.Resumed(r.Clock.Now())
	}
	return s.record
}

// next returns the current record and the time until it changes.
func (r *Reconciler) next(s *scope) (remediation.Record, time.Duration) {
	return remediation.Next(remediation.Progress{
		Record: r.resumed(s), Limits: s.limits, Unhealthy: s.unhealthy(),
		PoweredOn: s.isOn(), Grace: s.grace, Since: r.since, Now: r.Clock.Now(),
	})
}

// isOn returns true if the host is powered on, and no restart of it is requested.
func (s *scope) isOn() bool { return s.host.Status.PoweredOn && !remediation.Restarting(s.host) }

// extend gives a try more time before the next try, or the replacement of the Machine, follows. A MachineHealthCheck
// with a template reports a recovery only while Cluster API is connected to the cluster, so its report may be outdated.
// The first row that fits counts.
//
//	seen                                          more time
//	host was not rebooted in this try, or is off  none
//	two timeouts have passed                      none
//	Node is ready                                 one timeout
//	API server does not answer, or forbids it     connectTime
//	anything else                                 none
func (r *Reconciler) extend(ctx context.Context, s *scope) (outcome.Outcome, error) {
	record, _ := r.next(s)
	ends := record.RetryCount != s.record.RetryCount || record.Phase != s.record.Phase
	rebooted := s.record.Phase == infrav1.RemediationWaiting && s.isOn()
	if !ends || !rebooted || s.record.Left(2*s.limits.Timeout, r.Clock.Now()) == 0 {
		return outcome.Done(), nil
	}
	node, err := r.readNode(ctx, s)
	switch {
	case workload.IsUnreachable(err), apierrors.IsForbidden(err):
		s.grace, err = connectTime, nil
	case node != nil && remediation.IsReady(node):
		s.grace = s.limits.Timeout
	}
	return outcome.Done(), err
}

// advance starts the first or the next try, or ends the last one.
func (r *Reconciler) advance(ctx context.Context, s *scope) (outcome.Outcome, error) {
	record, after := r.next(s)
	begins := record.Phase == infrav1.RemediationRunning &&
		(record.RetryCount != s.record.RetryCount || s.record.Phase == "")
	s.record = record
	controllerutil.AddFinalizer(s.request, infrav1.RemediationFinalizer)
	if err := s.save(ctx); err != nil {
		return outcome.Done(), err
	}
	if begins {
		tries.Inc()
	}
	r.suspended.Delete(client.ObjectKeyFromObject(s.request))
	return outcome.Done().WithAfter(after), nil
}

// began returns when the current try began. A suspended try begins again, but the first one is as old as its request.
func (s *scope) began() *metav1.Time {
	if s.record.RetryCount == 0 {
		return &s.request.CreationTimestamp
	}
	return s.record.LastRemediated
}

// powerOff powers the host off. It restarts a host with disablePowerOff.
func (r *Reconciler) powerOff(ctx context.Context, s *scope) (outcome.Outcome, error) {
	switch {
	case s.record.Phase != infrav1.RemediationRunning:
		return outcome.Done(), nil
	case !remediation.HasPowerOffRequest(s.host) && !remediation.RanBefore(s.host, s.began()):
		return outcome.Waiting(infrav1.HostNotProvisionedReason, fmt.Sprintf(
			"BareMetalHost %s was not provisioned when this try began, so it is not rebooted. Its state is %s",
			s.host.Name, s.host.Status.Provisioning.State)), nil
	case s.host.Spec.DisablePowerOff:
		if err := r.write(ctx, s, remediation.Restart(s.host)); err != nil {
			return outcome.Done(), err
		}
		return outcome.Done(), r.wait(ctx, s)
	case !remediation.HasPowerOffRequest(s.host):
		if err := r.write(ctx, s, remediation.PowerOff(s.host, s.request.Name)); err != nil {
			return outcome.Done(), err
		}
	}
	if s.host.Status.PoweredOn {
		return s.waitForPower(infrav1.PoweringOffReason, "powered off"), nil
	}
	return outcome.Done(), nil
}

// fence fences the Node while its host is off, for half of the time that is left. Otherwise, the host would stay off.
// The kubelet ends pods that are still being deleted.
func (r *Reconciler) fence(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if s.record.Phase != infrav1.RemediationRunning {
		return outcome.Done(), nil
	}
	if s.record.FencedAt == nil {
		s.record.FencedAt = &metav1.Time{Time: r.Clock.Now().Truncate(time.Second)}
	}
	fenced, err := r.fenceOrSkip(ctx, s)
	if err == nil && fenced.IsDone() {
		return fenced, r.wait(ctx, s)
	}
	if apierrors.IsConflict(err) || s.record.FenceLeft(s.limits.Timeout, r.Clock.Now()) > 0 {
		return fenced, errors.Join(err, s.save(ctx))
	}
	problem := fenced.Message
	if err != nil {
		problem = err.Error()
	}
	if err := r.wait(ctx, s); err != nil {
		return outcome.Done(), err
	}
	r.Recorder.Eventf(s.request, nil, corev1.EventTypeWarning, "FenceIncomplete", "PowerOn",
		"Requested power-on of BareMetalHost %s, although its Node is not fenced: %s", s.host.Name, problem)
	return outcome.Done(), nil
}

// fenceOrSkip fences the Node. If the API server of the cluster does not answer, it skips the Node: no controller moves
// its pods in this time. The host itself may run this API server. If the API server forbids a request, it tries again
// for connectTime, and then skips the Node.
func (r *Reconciler) fenceOrSkip(ctx context.Context, s *scope) (outcome.Outcome, error) {
	fenced, err := r.fenceNode(ctx, s)
	switch {
	case workload.IsUnreachable(err):
		return s.waitForConnection(r.Clock.Now()), nil
	case apierrors.IsForbidden(err) && s.record.Left(connectTime, r.Clock.Now()) == 0:
		return outcome.Done(), nil
	default:
		return fenced, err
	}
}

// waitForConnection waits for the API server of the cluster for connectTime, because a new manager is not connected
// yet.
func (s *scope) waitForConnection(now time.Time) outcome.Outcome {
	left := s.record.Left(connectTime, now)
	if left == 0 {
		return outcome.Done()
	}
	return outcome.Waiting(infrav1.WorkloadClusterUnreachableReason, fmt.Sprintf(
		"Waiting for the API server of Cluster %s to answer, to fence Node %s", s.cluster.Name, s.owner.Status.NodeRef.Name),
	).WithAfter(min(left, pollInterval))
}

func (r *Reconciler) wait(ctx context.Context, s *scope) error {
	s.record.Phase = infrav1.RemediationWaiting
	return s.save(ctx)
}

func (r *Reconciler) powerOn(ctx context.Context, s *scope) (outcome.Outcome, error) {
	if err := r.write(ctx, s, remediation.PowerOn(s.host)); err != nil {
		return outcome.Done(), err
	}
	switch {
	case s.host.Spec.DisablePowerOff && remediation.Restarting(s.host):
		return s.waitForPower(infrav1.PoweringOffReason, "restarted"), nil
	case !s.host.Status.PoweredOn:
		return s.waitForPower(infrav1.PoweringOnReason, "powered on"), nil
	default:
		return outcome.Done(), nil
	}
}

func (s *scope) waitForPower(reason, goal string) outcome.Outcome {
	message := fmt.Sprintf("Waiting for BareMetalHost %s to be %s", s.host.Name, goal)
	if problem := host.Problem(s.host); problem != "" {
		message += ". " + problem
	}
	return outcome.Waiting(reason, message)
}

func (r *Reconciler) write(ctx context.Context, s *scope, desired *bmov1alpha1.BareMetalHost) error {
	stored, err := r.Hosts.Write(ctx, s.host, desired)
	if err == nil {
		s.host = stored
	}
	return err
}
