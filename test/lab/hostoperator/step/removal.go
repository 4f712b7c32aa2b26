package step

import (
	"encoding/json"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// startDeletion leads a host that is deleted out of the state that it is in: what runs an image is cleaned, what is on
// is switched off.
func (d *decision) startDeletion() *Step {
	if !d.isDeleting() {
		return nil
	}
	detached, isDetached := d.detachment()
	hasGivenUp := d.hasFailed(bmov1alpha1.RegistrationError) && d.host.Status.ErrorCount > attempts
	switch state := d.state(); {
	case state == bmov1alpha1.StateDeleting:
		return nil
	case isDetached && (d.canDetach() || detached.Force):
		if detached.DeleteAction == bmov1alpha1.DetachedDeleteActionDelay {
			return nil
		}
		return d.enter(bmov1alpha1.StateDeleting)
	case state == bmov1alpha1.StateRegistering:
		return d.enter(bmov1alpha1.StateDeleting)
	case state == bmov1alpha1.StateProvisioning, state == bmov1alpha1.StateProvisioned:
		return d.enter(bmov1alpha1.StateDeprovisioning)
	case state == bmov1alpha1.StateDeprovisioning, state == bmov1alpha1.StatePoweringOffBeforeDelete:
		if hasGivenUp {
			return d.enter(bmov1alpha1.StateDeleting)
		}
		return nil
	default:
		return d.enter(bmov1alpha1.StatePoweringOffBeforeDelete)
	}
}

// detachment reads the annotation that takes a host away from Ironic. A value that cannot be read counts as none.
func (d *decision) detachment() (bmov1alpha1.DetachedAnnotationArguments, bool) {
	value, found := d.host.Annotations[bmov1alpha1.DetachedAnnotation]
	var arguments bmov1alpha1.DetachedAnnotationArguments
	if json.Unmarshal([]byte(value), &arguments) != nil {
		arguments = bmov1alpha1.DetachedAnnotationArguments{}
	}
	return arguments, found
}

// canDetach says whether nothing happens to the host that Ironic would have to finish.
func (d *decision) canDetach() bool {
	switch d.state() {
	case bmov1alpha1.StateProvisioned, bmov1alpha1.StateExternallyProvisioned,
		bmov1alpha1.StateAvailable, bmov1alpha1.StateReady:
		return true
	default:
		return false
	}
}

// detach takes the node out of Ironic, and leaves the machine and the state of the host as they are. Without the
// annotation, the host is registered again.
func (d *decision) detach() *Step {
	detached, found := d.detachment()
	if found && d.state() != bmov1alpha1.StateDeleting && (d.canDetach() || detached.Force) {
		if step := d.removeNode(detached.Force); step != nil {
			return step
		}
		d.host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDetached
		return d.rest("the host is detached", d.rules.Steady)
	}
	if d.host.Status.OperationalStatus == bmov1alpha1.OperationalStatusDetached {
		d.host.Status.OperationalStatus = bmov1alpha1.OperationalStatusOK
		if d.host.Status.ErrorType != "" {
			d.host.Status.OperationalStatus = bmov1alpha1.OperationalStatusError
		}
	}
	return nil
}

// removeNode removes the node from Ironic without doing anything to the machine. Nil means that it is gone. By force,
// it interrupts what Ironic lets be interrupted.
func (d *decision) removeNode(force bool) *Step {
	node := d.seen.Node
	switch d.nodeState() {
	case "":
		return nil
	case nodes.Enroll:
	case nodes.Verifying, nodes.Deploying, nodes.Cleaning, nodes.Inspecting, nodes.Deleting, nodes.Adopting:
		return d.later("waiting until the node can be removed")
	case nodes.DeployWait, nodes.InspectWait, nodes.CleanWait:
		if !force {
			return d.later("waiting until the node can be removed")
		}
		step := d.later("interrupting Ironic to remove the node")
		step.Call = Provision{Target: nodes.TargetAbort}
		return step
	case nodes.Available, nodes.Manageable:
		if changes := change(nil, "/instance_uuid", orNil(node.InstanceUUID), nil); changes != nil {
			return d.instruct("dropping the instance of the node", Update{Changes: changes})
		}
	default:
		if !node.Maintenance {
			return d.instruct("preparing to remove the node",
				Maintenance{On: true, Reason: "BMO removes the node."})
		}
	}
	return d.instruct("removing the node", Remove{})
}

// later looks again soon, and leaves errors as they are.
func (d *decision) later(why string) *Step { return d.rest(why, d.rules.Poll) }

func orNil(value string) any {
	if value == "" {
		return nil
	}
	return value
}

// deprovision takes the image from the host, and cleans it where that is not disabled.
func (d *decision) deprovision() *Step {
	node := d.seen.Node
	again := d.hasFailed(bmov1alpha1.ProvisioningError)
	switch d.nodeState() {
	case "", nodes.Enroll:
		// Only a host that is deleted gets here without a node that Ironic can use, and without credentials for one.
		return d.enter(bmov1alpha1.StateDeleting)
	case nodes.Available:
		return d.finishDeprovisioning()
	case nodes.Error:
		if !again {
			return d.failRemoval(bmov1alpha1.ProvisioningError, orElse(node.LastError, "Deprovisioning failed"))
		}
		return d.load("taking the image from the host again", Provision{Target: nodes.TargetDeleted})
	case nodes.CleanFail:
		if !again {
			return d.failRemoval(bmov1alpha1.ProvisioningError, "Cleaning failed: "+node.LastError)
		}
		return d.retryAfterCleaning()
	case nodes.AdoptFail, nodes.InspectFail:
		return d.to(nodes.TargetManage, "leaving the failed work")
	case nodes.Manageable:
		// After a failed cleaning, or where Ironic lost its database.
		return d.load("cleaning the host", Provision{Target: nodes.TargetProvide})
	case nodes.Active, nodes.DeployFail, nodes.DeployWait:
		return d.load("taking the image from the host", Provision{Target: nodes.TargetDeleted})
	default:
		return d.wait("waiting until the host is clean")
	}
}

func (d *decision) finishDeprovisioning() *Step {
	d.clearError()
	d.dropRebootRequests()
	d.host.Status.Provisioning.Image = bmov1alpha1.Image{}
	d.host.Status.Provisioning.CustomDeploy = nil
	if d.isDeleting() {
		return d.succeed(bmov1alpha1.StatePoweringOffBeforeDelete)
	}
	return d.succeed(bmov1alpha1.StateAvailable)
}

// failRemoval reports an error, unless the host is deleted and enough has been tried: then it goes as it is.
func (d *decision) failRemoval(kind bmov1alpha1.ErrorType, message string) *Step {
	step := d.fail(kind, message)
	if !d.isDeleting() || d.host.Status.ErrorCount <= attempts {
		return step
	}
	if d.state() == bmov1alpha1.StateDeprovisioning {
		return d.enter(bmov1alpha1.StatePoweringOffBeforeDelete)
	}
	return d.enter(bmov1alpha1.StateDeleting)
}

func (d *decision) powerOffBeforeDelete() *Step {
	node := d.seen.Node
	if d.host.Spec.DisablePowerOff || node == nil {
		return d.enter(bmov1alpha1.StateDeleting)
	}
	switch state := d.nodeState(); {
	case node.PowerState == string(nodes.PowerOff):
		d.host.Status.PoweredOn = false
		return d.succeed(bmov1alpha1.StateDeleting)
	case state == nodes.InspectWait, state == nodes.CleanWait && !d.wantsCleaning():
		return d.to(nodes.TargetAbort, "interrupting Ironic to switch the host off")
	case state == nodes.InspectFail && node.TargetProvisionState != "":
		return d.to(nodes.TargetManage, "leaving the interrupted inspection")
	case IsBusy(node):
		return d.wait("waiting until Ironic is done with the host")
	case node.TargetPowerState == string(nodes.PowerOff), node.TargetPowerState == string(nodes.SoftPowerOff):
		return d.wait("waiting until the power is off")
	case node.LastError != "" && !d.hasFailed(bmov1alpha1.PowerManagementError):
		return d.failRemoval(bmov1alpha1.PowerManagementError, node.LastError)
	default:
		return d.askForPower("switching the power off", nodes.PowerOff)
	}
}

// delete takes the host out of Ironic and lets it go.
func (d *decision) delete() *Step {
	if step := d.removeNode(false); step != nil {
		return step
	}
	if d.seen.Secret != nil && controllerutil.ContainsFinalizer(d.seen.Secret, SecretFinalizer) {
		return d.do(ReleaseSecret)
	}
	controllerutil.RemoveFinalizer(d.host, bmov1alpha1.BareMetalHostFinalizer)
	return d.rest("letting the host go", Never)
}
