package step

import (
	"encoding/json"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
)

// softPowerOffLimit is how many seconds an operating system gets to go down.
const softPowerOffLimit = 180

// keepPower makes the power follow spec.online, and off for as long as somebody asks for a reboot.
func (d *decision) keepPower() *Step {
	switch d.seen.Node.PowerState {
	case string(nodes.PowerOn), string(nodes.PowerOff):
		d.host.Status.PoweredOn = d.seen.Node.PowerState == string(nodes.PowerOn)
	}
	if _, once := d.host.Annotations[bmov1alpha1.RebootAnnotationPrefix]; once && !d.host.Status.PoweredOn {
		// The request without a name is granted by switching off; one with a name ends when its owner ends it.
		delete(d.host.Annotations, bmov1alpha1.RebootAnnotationPrefix)
		return d.changed("ending the reboot that was asked for")
	}
	request := d.rebootRequest()
	switch {
	case d.host.Spec.DisablePowerOff:
		return d.keepOn(request)
	case d.host.Spec.Online && !request.found:
		return d.powerOn()
	default:
		return d.powerOff(request.mode)
	}
}

// keepOn is for a host that must never be off. A request without a name is granted by a reset; one with a name cannot
// be, because nothing would tell that it was.
func (d *decision) keepOn(request rebootRequest) *Step {
	if !d.host.Status.PoweredOn {
		return d.powerOn()
	}
	if _, once := d.host.Annotations[bmov1alpha1.RebootAnnotationPrefix]; !once || !request.found {
		return d.steady()
	}
	target := nodes.SoftRebooting
	if d.mode(request.mode) == bmov1alpha1.RebootModeHard {
		target = nodes.Rebooting
	}
	delete(d.host.Annotations, bmov1alpha1.RebootAnnotationPrefix)
	return d.askForPower("resetting the host", target)
}

func (d *decision) powerOn() *Step {
	node := d.seen.Node
	switch {
	case d.host.Status.PoweredOn:
		return d.steady()
	case node.TargetPowerState == string(nodes.PowerOn):
		return d.wait("waiting until the power is on")
	case node.LastError != "" && !d.hasFailed(bmov1alpha1.PowerManagementError):
		return d.fail(bmov1alpha1.PowerManagementError, "PowerOn operation failed: "+node.LastError)
	default:
		return d.askForPower("switching the power on", nodes.PowerOn)
	}
}

func (d *decision) powerOff(mode bmov1alpha1.RebootMode) *Step {
	node := d.seen.Node
	switch {
	case !d.host.Status.PoweredOn:
		return d.steady()
	case node.TargetPowerState == string(nodes.PowerOff), node.TargetPowerState == string(nodes.SoftPowerOff):
		return d.wait("waiting until the power is off")
	case node.TargetPowerState == "" && node.LastError != "" && !d.hasFailed(bmov1alpha1.PowerManagementError) &&
		!strings.Contains(node.LastError, "aborted"):
		return d.fail(bmov1alpha1.PowerManagementError, node.LastError)
	case d.mode(mode) == bmov1alpha1.RebootModeSoft:
		return d.askForPower("shutting the host down", nodes.SoftPowerOff)
	default:
		return d.askForPower("switching the power off", nodes.PowerOff)
	}
}

// mode is how to switch off: after an error, always the hard way.
func (d *decision) mode(wanted bmov1alpha1.RebootMode) bmov1alpha1.RebootMode {
	if d.seen.Host.Status.ErrorCount > 0 {
		return bmov1alpha1.RebootModeHard
	}
	return wanted
}

// askForPower waits where Ironic is working on the node, because it refuses then.
func (d *decision) askForPower(why string, target nodes.TargetPowerState) *Step {
	if d.seen.Node.TargetProvisionState != "" {
		return d.wait("waiting until Ironic is done with the host")
	}
	options := nodes.PowerStateOpts{Target: target}
	if target == nodes.SoftPowerOff || target == nodes.SoftRebooting {
		options.Timeout = softPowerOffLimit
	}
	return d.ask(why, Power{Options: options})
}

// steady is reached when the power is as it shall be. A power error is over then.
func (d *decision) steady() *Step {
	if d.hasFailed(bmov1alpha1.PowerManagementError) {
		d.clearError()
	}
	if d.host.Status.ErrorType == "" {
		d.host.Status.ErrorCount = 0
	}
	return d.rest("all is as it shall be", d.rules.Steady)
}

// rebootRequest is what the annotations for a reboot add up to.
type rebootRequest struct {
	found bool
	mode  bmov1alpha1.RebootMode
}

// rebootRequest reads the annotations. One that asks for a hard reboot wins. A host without an image is rebooted only
// by force. What cannot be read asks for a soft reboot.
func (d *decision) rebootRequest() rebootRequest {
	request := rebootRequest{mode: bmov1alpha1.RebootModeSoft}
	hasImage := d.state() == bmov1alpha1.StateProvisioned || d.state() == bmov1alpha1.StateExternallyProvisioned
	for key, value := range d.host.Annotations {
		if !isRebootRequest(key) {
			continue
		}
		var arguments bmov1alpha1.RebootAnnotationArguments
		if json.Unmarshal([]byte(value), &arguments) != nil {
			arguments = bmov1alpha1.RebootAnnotationArguments{}
		}
		if !hasImage && !arguments.Force {
			continue
		}
		request.found = true
		if arguments.Mode == bmov1alpha1.RebootModeHard {
			request.mode = bmov1alpha1.RebootModeHard
		}
	}
	return request
}

// dropRebootRequests forgets all requests, because what they asked for has been overtaken.
func (d *decision) dropRebootRequests() {
	for key := range d.host.Annotations {
		if isRebootRequest(key) {
			delete(d.host.Annotations, key)
		}
	}
}

func isRebootRequest(key string) bool {
	return key == bmov1alpha1.RebootAnnotationPrefix || strings.HasPrefix(key, bmov1alpha1.RebootAnnotationPrefix+"/")
}
