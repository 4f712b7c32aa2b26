package step

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

const (
	// Driver is the hardware type of all nodes.
	Driver = "lab"

	// addressPrefix marks the addresses of management controllers that this driver reaches. The rest is a URL.
	addressPrefix = "lab+"
)

// register makes sure that Ironic knows the host and can reach its management controller. It has nothing to say once
// that is so.
func (d *decision) register() *Step {
	known, problem := d.credentials()
	if problem != "" || d.state() == bmov1alpha1.StateDeleting {
		return nil
	}
	if d.hasFailed(bmov1alpha1.RegistrationError) || !d.host.Status.GoodCredentials.Match(*d.seen.Secret) {
		d.beginMetric(bmov1alpha1.StateRegistering)
	}
	address, found := strings.CutPrefix(d.host.Spec.BMC.Address, addressPrefix)
	if !found || !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
		problem := fmt.Sprintf("the BMC address %q cannot be used: write %shttp://... or %shttps://...",
			d.host.Spec.BMC.Address, addressPrefix, addressPrefix)
		if d.isDeleting() {
			// Who deletes a host does not correct it. It goes after a few attempts.
			return d.fail(bmov1alpha1.RegistrationError, problem)
		}
		return d.reject(problem)
	}
	driverInfo := map[string]any{
		"lab_address": address, "lab_username": known.username, "lab_password": known.password,
	}
	if d.seen.Node == nil {
		return d.enroll(driverInfo)
	}
	d.host.Status.Provisioning.ID = d.seen.Node.UUID
	for _, look := range []func() *Step{
		d.addPorts,
		func() *Step { return d.describe(driverInfo) },
		d.verify,
		d.configure,
	} {
		if step := look(); step != nil {
			return step
		}
	}
	d.acceptCredentials()
	return nil
}

// reject reports what only the user can put right, which wakes the operator.
func (d *decision) reject(problem string) *Step {
	d.setError(bmov1alpha1.RegistrationError, problem)
	return d.rest(problem, Never)
}

func (d *decision) enroll(driverInfo map[string]any) *Step {
	if d.seen.Stranger != "" {
		return d.fail(bmov1alpha1.RegistrationError, fmt.Sprintf(
			"the MAC address %s belongs to the node %s already: give one of the hosts another bootMACAddress",
			d.host.Spec.BootMACAddress, d.seen.Stranger))
	}
	d.host.UpdateTriedCredentials(*d.seen.Secret)
	clean := d.wantsCleaning()
	return d.instruct("enrolling the host", Enroll{Node: nodes.CreateOpts{
		Name:            NodeName(d.host),
		Driver:          Driver,
		DriverInfo:      driverInfo,
		AutomatedClean:  &clean,
		DisablePowerOff: &d.host.Spec.DisablePowerOff,
	}})
}

// addPorts gives the node a port for every MAC address of the host. After a loss of Ironic's database, the HardwareData
// is all that knows the others than the one to boot from.
func (d *decision) addPorts() *Step {
	if IsBusy(d.seen.Node) {
		return nil
	}
	boot := strings.ToLower(d.host.Spec.BootMACAddress)
	addresses := []string{}
	if boot != "" {
		addresses = append(addresses, boot)
	}
	if found := d.recordedHardware(); found != nil {
		for _, nic := range found.NIC {
			addresses = append(addresses, strings.ToLower(nic.MAC))
		}
	}
	for _, address := range addresses {
		if address != "" && !slices.Contains(d.seen.Ports, address) {
			return d.instruct("adding the port "+address, AddPort{MACAddress: address, PXE: address == boot})
		}
	}
	return nil
}

// describe keeps the name and the way to the management controller up to date. Ironic never tells the password, so that
// it is the version of the Secret which says whether it must be sent again.
func (d *decision) describe(driverInfo map[string]any) *Step {
	node := d.seen.Node
	var changes nodes.UpdateOpts
	changes = change(changes, "/name", node.Name, NodeName(d.host))
	changes = change(changes, "/disable_power_off", node.DisablePowerOff, d.host.Spec.DisablePowerOff)
	if !d.host.Status.TriedCredentials.Match(*d.seen.Secret) ||
		node.DriverInfo["lab_address"] != driverInfo["lab_address"] ||
		node.DriverInfo["lab_username"] != driverInfo["lab_username"] {
		changes = append(changes, nodes.UpdateOperation{Op: nodes.AddOp, Path: "/driver_info", Value: driverInfo})
	}
	if len(changes) == 0 {
		return nil
	}
	d.host.UpdateTriedCredentials(*d.seen.Secret)
	if d.nodeState() == nodes.Enroll && node.LastError != "" {
		// What Ironic said of the credentials before does not count for these: this makes verify try them.
		d.host.Status.ErrorType = bmov1alpha1.RegistrationError
		d.host.Status.OperationalStatus = bmov1alpha1.OperationalStatusError
		d.host.Status.ErrorMessage = node.LastError
	}
	return d.instruct("describing the host to Ironic", Update{Changes: changes})
}

// verify makes Ironic try the management controller, which it does on the way to manageable.
func (d *decision) verify() *Step {
	switch node := d.seen.Node; d.nodeState() {
	case nodes.Enroll:
		if node.LastError != "" && !d.hasFailed(bmov1alpha1.RegistrationError) {
			return d.fail(bmov1alpha1.RegistrationError, node.LastError)
		}
		if node.TargetProvisionState == string(nodes.Manageable) {
			return d.wait("waiting until Ironic has tried the BMC")
		}
		return d.to(nodes.TargetManage, "letting Ironic try the BMC")
	case nodes.Verifying:
		return d.wait("waiting until Ironic has tried the BMC")
	default:
		return nil
	}
}

// configure sets what may change while the host lives. Ironic lets nobody change a node that it is working on.
func (d *decision) configure() *Step {
	if IsBusy(d.seen.Node) || d.nodeState() == nodes.Adopting {
		return nil
	}
	if clean := d.seen.Node.AutomatedClean; clean != nil && *clean == d.wantsCleaning() {
		return nil
	}
	return d.instruct("setting automated cleaning", Update{Changes: nodes.UpdateOpts{
		nodes.UpdateOperation{Op: nodes.AddOp, Path: "/automated_clean", Value: d.wantsCleaning()},
	}})
}

func (d *decision) wantsCleaning() bool {
	return d.host.Spec.AutomatedCleaningMode != bmov1alpha1.CleaningModeDisabled
}

// acceptCredentials records that the management controller was reached.
func (d *decision) acceptCredentials() {
	isNew := !d.host.Status.GoodCredentials.Match(*d.seen.Secret)
	if isNew {
		d.host.UpdateGoodCredentials(*d.seen.Secret)
	}
	if isNew || d.hasFailed(bmov1alpha1.RegistrationError) {
		d.clearError()
	}
	d.endMetric(bmov1alpha1.StateRegistering)
}

// change appends the patch that turns what there is into what is wanted, if they differ. Nil means no value.
func change(changes nodes.UpdateOpts, path string, have, want any) nodes.UpdateOpts {
	switch {
	case have == want:
		return changes
	case want == nil:
		return append(changes, nodes.UpdateOperation{Op: nodes.RemoveOp, Path: path})
	default:
		// To add what exists replaces it.
		return append(changes, nodes.UpdateOperation{Op: nodes.AddOp, Path: path, Value: want})
	}
}
