package step_test

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

func containsAll(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

func TestPower(t *testing.T) {
	const provisioned, available = bmov1alpha1.StateProvisioned, bmov1alpha1.StateAvailable
	const powerError = bmov1alpha1.PowerManagementError
	off := func(s *step.Seen) {
		s.Host.Status.PoweredOn = false
		s.Node.PowerState = "power off"
	}
	busy := onNode(func(node *nodes.Node) { node.TargetProvisionState = "active" })
	heading := func(to string) func(*step.Seen) {
		return onNode(func(node *nodes.Node) { node.TargetPowerState = to })
	}
	disabled := func(s *step.Seen) {
		s.Host.Spec.DisablePowerOff = true
		s.Node.DisablePowerOff = true
	}
	is := func(on bool) func(*testing.T, *bmov1alpha1.BareMetalHost) {
		return func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
			t.Helper()
			if host.Status.PoweredOn != on {
				t.Errorf("powered on: %v", host.Status.PoweredOn)
			}
		}
	}
	runNext(t, map[string]story{
		"on": {
			reason: "the user wants it on", seen: running(provisioned, nodes.Active, off),
			want: want{call: power(nodes.PowerOn), after: rules.Poll},
		},
		"going on": {
			reason: "Ironic is at it", seen: running(provisioned, nodes.Active, off, heading("power on")),
			want: want{after: rules.Poll},
		},
		"found on": {
			reason: "what Ironic sees counts",
			seen:   running(provisioned, nodes.Active, func(s *step.Seen) { s.Host.Status.PoweredOn = false }),
			want:   want{after: rules.Steady}, check: is(true),
		},
		"found off": {
			reason: "somebody has pulled the plug",
			seen:   running(provisioned, nodes.Active, func(s *step.Seen) { s.Node.PowerState = "power off" }),
			want:   want{call: power(nodes.PowerOn), after: rules.Poll}, check: is(false),
		},
		"unknown": {
			reason: "what Ironic does not know is as it was",
			seen:   running(provisioned, nodes.Active, func(s *step.Seen) { s.Node.PowerState = "" }),
			want:   want{after: rules.Steady}, check: is(true),
		},
		"off": {
			reason: "an operating system gets the chance to go down", seen: running(provisioned, nodes.Active, offline),
			want: want{call: power(nodes.SoftPowerOff), after: rules.Poll},
		},
		"going off": {
			reason: "Ironic is at it", seen: running(provisioned, nodes.Active, offline, heading("soft power off")),
			want: want{after: rules.Poll},
		},
		"off while Ironic works": {
			reason: "Ironic would refuse", seen: running(provisioned, nodes.Active, offline, busy),
			want: want{after: rules.Poll},
		},
		"off failed": {
			reason: "Ironic says why", seen: running(provisioned, nodes.Active, offline, lastError("no answer")),
			want: want{status: isError, error: powerError, text: "no answer", count: 1, after: rules.Retry},
		},
		"off failed before": {
			reason: "who does not go down is switched off",
			seen:   running(provisioned, nodes.Active, offline, lastError("no answer"), failed(powerError, 1)),
			want:   want{status: isOK, count: 1, call: power(nodes.PowerOff), after: rules.Poll},
		},
		"off at last": {
			reason: "the error is over",
			seen:   running(provisioned, nodes.Active, offline, off, failed(powerError, 1)),
			want:   want{status: isOK, after: rules.Steady},
		},
		"on failed": {
			reason: "Ironic says why", seen: running(provisioned, nodes.Active, off, lastError("no answer")),
			want: want{
				status: isError, error: powerError, text: "PowerOn operation failed: no answer", count: 1, after: rules.Retry,
			},
		},
		"on failed before": {
			reason: "the time of the back-off is over",
			seen:   running(provisioned, nodes.Active, off, lastError("no answer"), failed(powerError, 2)),
			want:   want{status: isOK, count: 2, call: power(nodes.PowerOn), after: rules.Poll},
		},
		"another error stays": {
			reason: "that the power is right says nothing of the adoption",
			seen:   running(provisioned, nodes.Active, failed(bmov1alpha1.InspectionError, 1)),
			want: want{
				status: isError, error: bmov1alpha1.InspectionError, text: "before", count: 1, after: rules.Steady,
			},
		},
		"reboot": {
			reason: "it begins with going down",
			seen:   running(provisioned, nodes.Active, annotated("reboot.metal3.io", "")),
			want:   want{call: power(nodes.SoftPowerOff), after: rules.Poll},
		},
		"hard reboot": {
			reason: "the strictest request wins",
			seen: running(provisioned, nodes.Active, annotated("reboot.metal3.io", `{"mode":"soft"}`),
				annotated("reboot.metal3.io/me", `{"mode":"hard"}`)),
			want: want{call: power(nodes.PowerOff), after: rules.Poll},
		},
		"broken request": {
			reason: "it counts as a soft one",
			seen:   running(provisioned, nodes.Active, annotated("reboot.metal3.io", "{")),
			want:   want{call: power(nodes.SoftPowerOff), after: rules.Poll},
		},
		"rebooted": {
			reason: "a request without a name is granted by switching off",
			seen:   running(provisioned, nodes.Active, off, annotated("reboot.metal3.io", "")),
			want:   want{}, check: hasNoAnnotations,
		},
		"held off": {
			reason: "a request with a name ends when its owner ends it",
			seen:   running(provisioned, nodes.Active, off, annotated("reboot.metal3.io/me", "")),
			want:   want{after: rules.Steady},
		},
		"not a request": {
			reason: "the name only begins like one",
			seen:   running(provisioned, nodes.Active, annotated("reboot.metal3.io-other", "")),
			want:   want{after: rules.Steady},
		},
		"reboot of an available host": {
			reason: "it runs nothing that could be rebooted",
			seen:   seen(available, nodes.Manageable, isOn, annotated("reboot.metal3.io", "")),
			want:   want{after: rules.Steady},
		},
		"forced reboot of an available host": {
			reason: "the user insists",
			seen:   seen(available, nodes.Manageable, isOn, annotated("reboot.metal3.io", `{"force":true}`)),
			want:   want{call: power(nodes.SoftPowerOff), after: rules.Poll},
		},
		"off is disabled": {
			reason: "the host must never be off", seen: running(provisioned, nodes.Active, disabled, offline),
			want: want{after: rules.Steady},
		},
		"reset": {
			reason: "a host that must never be off is rebooted in one go",
			seen:   running(provisioned, nodes.Active, disabled, annotated("reboot.metal3.io", `{"mode":"hard"}`)),
			want:   want{call: power(nodes.Rebooting), after: rules.Poll}, check: hasNoAnnotations,
		},
		"held off is disabled": {
			reason: "nothing would tell that the request was granted",
			seen:   running(provisioned, nodes.Active, disabled, annotated("reboot.metal3.io/me", "")),
			want:   want{after: rules.Steady},
		},
	})
}

func TestRefused(t *testing.T) {
	all := running(bmov1alpha1.StateProvisioned, nodes.Active)
	for name, row := range map[string]struct {
		call step.Call
		want want
	}{
		"enroll": {
			call: enroll(),
			want: want{status: isError, error: bmov1alpha1.RegistrationError, text: "no", count: 1, after: rules.Retry},
		},
		"port": {
			call: step.AddPort{},
			want: want{status: isError, error: bmov1alpha1.RegistrationError, text: "no", count: 1, after: rules.Retry},
		},
		"deploy": {
			call: step.Deploy{},
			want: want{
				status: isError, error: bmov1alpha1.ProvisioningError, text: "Image provisioning failed: no", count: 1,
				after: rules.Retry,
			},
		},
		"power": {
			call: power(nodes.PowerOn),
			want: want{
				status: isError, error: bmov1alpha1.PowerManagementError, count: 1, after: rules.Retry,
				text: `Ironic refuses to change the power to "power on": no`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, found := step.Refused(all, rules, row.call, "no")
			if !found {
				t.Fatal("no verdict")
			}
			story{reason: "the host tells what Ironic says", seen: all, want: row.want}.judge(t, &got)
		})
	}
	for _, call := range []step.Call{to(nodes.TargetManage), step.Update{}, step.Maintenance{}, step.Remove{}} {
		if _, found := step.Refused(all, rules, call, "no"); found {
			t.Errorf("%T: a verdict on the host, though the refusal says nothing about it", call)
		}
	}
}
