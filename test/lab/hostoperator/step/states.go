package step

import (
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

// leaveRegistering is reached once the host is registered.
func (d *decision) leaveRegistering() *Step {
	switch {
	case d.host.Spec.ExternallyProvisioned:
		return d.succeed(bmov1alpha1.StateExternallyProvisioned)
	case d.host.InspectionDisabled():
		return d.succeed(bmov1alpha1.StatePreparing)
	default:
		return d.succeed(bmov1alpha1.StateInspecting)
	}
}

func (d *decision) inspect() *Step {
	if d.host.InspectionDisabled() {
		return d.succeed(bmov1alpha1.StatePreparing)
	}
	start := Provision{Target: nodes.TargetInspect}
	switch d.nodeState() {
	case nodes.Available:
		return d.to(nodes.TargetManage, "taking the host back to inspect it")
	case nodes.InspectFail:
		if !d.hasFailed(bmov1alpha1.InspectionError) {
			return d.fail(bmov1alpha1.InspectionError, orElse(d.seen.Node.LastError, "Inspection failed"))
		}
		return d.load("inspecting again", start)
	case nodes.Manageable:
		if d.wantsInspection() {
			step := d.load("inspecting again as the user wishes", start)
			if step.Call != nil {
				delete(d.host.Annotations, bmov1alpha1.InspectAnnotationPrefix)
			}
			return step
		}
		if d.seen.Inventory == nil {
			return d.load("inspecting", start)
		}
		return d.finishInspection()
	default:
		return d.wait("waiting for the inspection")
	}
}

func (d *decision) finishInspection() *Step {
	d.clearError()
	d.host.Status.HardwareDetails = d.seen.Inventory
	step := d.succeed(bmov1alpha1.StatePreparing)
	if !d.isDeleting() {
		step.Chore = RecordHardware
	}
	return step
}

// wantsInspection says whether the user asked for another inspection, and has not forbidden all.
func (d *decision) wantsInspection() bool {
	_, found := d.host.Annotations[bmov1alpha1.InspectAnnotationPrefix]
	return found && !d.host.InspectionDisabled()
}

// prepare is where the Baremetal Operator changes RAID and firmware. Here is nothing to change, so it only waits until
// Ironic rests.
func (d *decision) prepare() *Step {
	switch d.nodeState() {
	case nodes.Manageable, nodes.Available:
		d.clearError()
		return d.succeed(bmov1alpha1.StateAvailable)
	case nodes.CleanFail:
		if !d.hasFailed(bmov1alpha1.PreparationError) {
			return d.fail(bmov1alpha1.PreparationError, d.seen.Node.LastError)
		}
		return d.retryAfterCleaning()
	case nodes.InspectFail:
		return d.to(nodes.TargetManage, "leaving the failed inspection")
	default:
		return d.wait("waiting until Ironic is done with the host")
	}
}

// retryAfterCleaning leaves a failed cleaning. Ironic puts the node into maintenance then, and does nothing with it
// before that is over.
func (d *decision) retryAfterCleaning() *Step {
	if d.seen.Node.Maintenance {
		return d.instruct("ending the maintenance", Maintenance{})
	}
	return d.to(nodes.TargetManage, "leaving the failed cleaning")
}

func (d *decision) keepAvailable() *Step {
	switch {
	case d.host.Spec.ExternallyProvisioned:
		return d.enter(bmov1alpha1.StateExternallyProvisioned)
	case d.wantsInspection():
		return d.enter(bmov1alpha1.StateInspecting)
	case d.host.NeedsProvisioning():
		d.clearError()
		return d.enter(bmov1alpha1.StateProvisioning)
	default:
		return d.keepPower()
	}
}

func (d *decision) keepProvisioned() *Step {
	if d.isCancelled() {
		return d.enter(bmov1alpha1.StateDeprovisioning)
	}
	return d.keepAdopted()
}

func (d *decision) keepExternallyProvisioned() *Step {
	switch {
	case d.host.Spec.ExternallyProvisioned:
		return d.keepAdopted()
	case d.host.NeedsHardwareInspection():
		return d.enter(bmov1alpha1.StateInspecting)
	default:
		return d.enter(bmov1alpha1.StatePreparing)
	}
}

// keepAdopted makes Ironic believe that the host runs an image, without doing anything to it, and then looks after the
// power.
func (d *decision) keepAdopted() *Step {
	switch node := d.seen.Node; d.nodeState() {
	case nodes.Manageable:
		return d.to(nodes.TargetAdopt, "adopting the host")
	case nodes.Adopting:
		return d.wait("waiting for the adoption")
	case nodes.AdoptFail:
		if !d.hasFailed(bmov1alpha1.ProvisionedRegistrationError) {
			return d.fail(bmov1alpha1.ProvisionedRegistrationError, "Host adoption failed: "+node.LastError)
		}
		return d.to(nodes.TargetAdopt, "adopting the host again")
	case nodes.Active:
		// Ironic sets a fault with the maintenance that it starts itself, and ends that when it can.
		if node.Maintenance && node.Fault == "" {
			return d.instruct("ending the maintenance", Maintenance{})
		}
	}
	return d.keepPower()
}

// isCancelled says whether the host is not to have what it has or is getting.
func (d *decision) isCancelled() bool {
	wanted, deployed := d.seen.Host.Spec, d.seen.Host.Status.Provisioning
	image := ""
	if wanted.Image != nil {
		image = wanted.Image.URL
	}
	method, deployedMethod := methodOf(wanted.CustomDeploy), methodOf(deployed.CustomDeploy)
	return method == "" && image == "" ||
		deployedMethod != "" && deployedMethod != method ||
		deployed.Image.URL != "" && deployed.Image.URL != image
}

// methodOf is the way of a custom deploy, empty for none.
func methodOf(deploy *bmov1alpha1.CustomDeploy) string {
	if deploy == nil {
		return ""
	}
	return deploy.Method
}

func orElse(value, otherwise string) string {
	if value == "" {
		return otherwise
	}
	return value
}
