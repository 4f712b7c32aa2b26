package step

import (
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

// attempts is how often something is tried to get an orderly end before a host is deleted without it.
const attempts = 3

// decision is one decision in the making. Every look at it either returns the step to take, or nil when it has nothing
// to say; on the way it may change the copy of the host.
type decision struct {
	seen  Seen
	rules Rules

	// host is the host as it shall be.
	host *bmov1alpha1.BareMetalHost
}

func decide(seen Seen, rules Rules, looks ...func(*decision) *Step) *Step {
	d := &decision{seen: seen, rules: rules, host: seen.Host.DeepCopy()}
	for _, look := range looks {
		if step := look(d); step != nil {
			return step
		}
	}
	return nil
}

// Admit decides what can be decided without Ironic. Nil means that Ironic has to be asked; then Next decides.
func Admit(seen Seen, rules Rules) *Step {
	return decide(seen, rules,
		(*decision).respectPause,
		(*decision).releaseHardware,
		(*decision).restoreStatus,
		(*decision).dropStatusAnnotation,
		(*decision).refillHardware,
		(*decision).addFinalizer,
		(*decision).begin,
		(*decision).checkCredentials,
	)
}

// Next decides what to do with a host that Admit has let through.
func Next(seen Seen, rules Rules) Step {
	return *decide(seen, rules,
		(*decision).startDeletion,
		(*decision).detach,
		(*decision).register,
		(*decision).work,
	)
}

// work does what the state is about. It always has a step.
func (d *decision) work() *Step {
	switch d.state() {
	case bmov1alpha1.StateRegistering:
		return d.leaveRegistering()
	case bmov1alpha1.StateInspecting:
		return d.inspect()
	case bmov1alpha1.StateMatchProfile, bmov1alpha1.StatePreparing:
		return d.prepare()
	case bmov1alpha1.StateAvailable, bmov1alpha1.StateReady:
		return d.keepAvailable()
	case bmov1alpha1.StateProvisioning:
		return d.provision()
	case bmov1alpha1.StateProvisioned:
		return d.keepProvisioned()
	case bmov1alpha1.StateExternallyProvisioned:
		return d.keepExternallyProvisioned()
	case bmov1alpha1.StateDeprovisioning:
		return d.deprovision()
	case bmov1alpha1.StatePoweringOffBeforeDelete:
		return d.powerOffBeforeDelete()
	case bmov1alpha1.StateDeleting:
		return d.delete()
	default:
		return d.rest("nobody knows the state "+string(d.state()), Never)
	}
}

func (d *decision) state() bmov1alpha1.ProvisioningState {
	return d.seen.Host.Status.Provisioning.State
}

func (d *decision) isDeleting() bool { return !d.seen.Host.DeletionTimestamp.IsZero() }

// nodeState is the provision state of the node, empty without a node.
func (d *decision) nodeState() nodes.ProvisionState {
	if d.seen.Node == nil {
		return ""
	}
	return nodes.ProvisionState(d.seen.Node.ProvisionState)
}

// hasFailed says whether the last thing that was tried ended in this error, so that it is time to try again instead of
// reporting the same error.
func (d *decision) hasFailed(kind bmov1alpha1.ErrorType) bool {
	return d.seen.Host.Status.ErrorType == kind
}

// changed writes the host and looks again at once.
func (d *decision) changed(why string) *Step { return d.rest(why, 0) }

// rest writes the host and leaves it alone for a time.
func (d *decision) rest(why string, after time.Duration) *Step {
	return &Step{Why: why, Host: d.host, After: after}
}

// wait lets Ironic work. Work that goes on is no error, so the one before is taken back; only its count stays.
func (d *decision) wait(why string) *Step {
	d.clearError()
	return d.rest(why, d.rules.Poll)
}

// ask makes a call and lets Ironic work. Ironic works on no node in maintenance: one that it has put there itself, it
// takes out again once the fault is over.
func (d *decision) ask(why string, call Call) *Step {
	_, isPower := call.(Power)
	switch node := d.seen.Node; {
	case isPower || !node.Maintenance:
		step := d.wait(why)
		step.Call = call
		return step
	case node.Fault != "":
		return d.wait("waiting until Ironic has got over a " + node.Fault)
	default:
		return d.instruct("ending the maintenance", Maintenance{})
	}
}

// instruct makes a call that is done when it returns, and looks again at once.
func (d *decision) instruct(why string, call Call) *Step {
	step := d.changed(why)
	step.Call = call
	return step
}

// to asks for another provision state.
func (d *decision) to(target nodes.TargetProvisionState, why string) *Step {
	return d.ask(why, Provision{Target: target})
}

// load makes a call that takes one of the places that Ironic has, or delays the host when all are taken.
func (d *decision) load(why string, call Call) *Step {
	if d.rules.Capacity > 0 && d.seen.Busy >= d.rules.Capacity {
		d.clearError()
		d.host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDelayed
		return d.rest("waiting until Ironic works on fewer hosts", d.rules.Retry)
	}
	return d.ask(why, call)
}

// do does a chore and looks again at once.
func (d *decision) do(chore Chore) *Step {
	step := d.changed(string(chore))
	step.Chore = chore
	return step
}

// fail reports an error. The next try is later with every error since the last success.
func (d *decision) fail(kind bmov1alpha1.ErrorType, message string) *Step {
	d.setError(kind, message)
	return d.rest(string(kind)+": "+message, d.rules.backoff(d.host.Status.ErrorCount))
}

func (d *decision) setError(kind bmov1alpha1.ErrorType, message string) {
	status := &d.host.Status
	status.OperationalStatus = bmov1alpha1.OperationalStatusError
	status.ErrorType, status.ErrorMessage = kind, message
	status.ErrorCount++
}

// clearError leaves the count of errors, which only success ends.
func (d *decision) clearError() {
	status := &d.host.Status
	status.OperationalStatus = bmov1alpha1.OperationalStatusOK
	status.ErrorType, status.ErrorMessage = "", ""
}

// enter goes on to another state.
func (d *decision) enter(state bmov1alpha1.ProvisioningState) *Step {
	d.endMetric(d.state())
	d.beginMetric(state)
	d.host.Status.Provisioning.State = state
	switch state {
	case bmov1alpha1.StateRegistering, bmov1alpha1.StateInspecting, bmov1alpha1.StateProvisioning:
		d.host.Status.Provisioning.BootMode = d.host.BootMode()
	}
	return d.changed("entering " + string(state))
}

// succeed goes on to another state, as nothing is wrong any more.
func (d *decision) succeed(state bmov1alpha1.ProvisioningState) *Step {
	d.host.Status.ErrorCount = 0
	return d.enter(state)
}

func (d *decision) beginMetric(state bmov1alpha1.ProvisioningState) {
	metric := d.host.OperationMetricForState(state)
	if metric != nil && (metric.Start.IsZero() || !metric.End.IsZero()) {
		*metric = bmov1alpha1.OperationMetric{Start: d.seen.Now}
	}
}

func (d *decision) endMetric(state bmov1alpha1.ProvisioningState) {
	metric := d.host.OperationMetricForState(state)
	if metric != nil && !metric.Start.IsZero() && metric.End.IsZero() {
		metric.End = d.seen.Now
	}
}
