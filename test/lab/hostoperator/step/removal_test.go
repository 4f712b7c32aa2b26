package step_test

import (
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

func TestDeprovisioning(t *testing.T) {
	const deprovisioning, available = bmov1alpha1.StateDeprovisioning, bmov1alpha1.StateAvailable
	const provisioningError = bmov1alpha1.ProvisioningError
	isClean := func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
		t.Helper()
		hasNoAnnotations(t, host)
		if host.Status.Provisioning.Image.URL != "" || host.Status.Provisioning.CustomDeploy != nil {
			t.Errorf("still deployed: %+v", host.Status.Provisioning)
		}
	}
	runNext(t, map[string]story{
		"started": {
			reason: "Ironic takes the image from the host", seen: running(deprovisioning, nodes.Active),
			want: want{call: to(nodes.TargetDeleted), after: rules.Poll},
		},
		"delayed": {
			reason: "Ironic works on as many hosts as it may", seen: running(deprovisioning, nodes.Active, crowded),
			want: want{status: isDelayed, after: rules.Retry},
		},
		"maintenance that somebody set": {
			reason: "Ironic works on no node in maintenance",
			seen:   running(deprovisioning, nodes.Active, onNode(func(node *nodes.Node) { node.Maintenance = true })),
			want:   want{call: step.Maintenance{}},
		},
		"maintenance that Ironic set": {
			reason: "Ironic ends it when the management controller answers again",
			seen: running(deprovisioning, nodes.Active, onNode(func(node *nodes.Node) {
				node.Maintenance, node.Fault = true, "power failure"
			})),
			want: want{after: rules.Poll},
		},
		"cleaning": {
			reason: "Ironic is at work, and the error before is over",
			seen:   running(deprovisioning, nodes.Cleaning, failed(provisioningError, 1)),
			want:   want{status: isOK, count: 1, after: rules.Poll},
		},
		"failed deployment": {
			reason: "what there may be of it goes", seen: running(deprovisioning, nodes.DeployFail),
			want: want{call: to(nodes.TargetDeleted), after: rules.Poll},
		},
		"done": {
			reason: "the host is for the next",
			seen:   running(deprovisioning, nodes.Available, annotated("reboot.metal3.io", ""), failed(provisioningError, 1)),
			want:   want{state: available, status: isOK}, check: isClean,
		},
		"done for ever": {
			reason: "a host that is deleted must not keep running",
			seen:   running(deprovisioning, nodes.Available, deleted, failed(provisioningError, 1)),
			want:   want{state: bmov1alpha1.StatePoweringOffBeforeDelete, status: isOK}, check: isClean,
		},
		"failed": {
			reason: "Ironic does not say why", seen: running(deprovisioning, nodes.Error),
			want: want{
				status: isError, error: provisioningError, text: "Deprovisioning failed", count: 1, after: rules.Retry,
			},
		},
		"failed again": {
			reason: "the time of the back-off is over",
			seen:   running(deprovisioning, nodes.Error, failed(provisioningError, 1)),
			want:   want{status: isOK, count: 1, call: to(nodes.TargetDeleted), after: rules.Poll},
		},
		"failed again, delayed": {
			reason: "Ironic works on as many hosts as it may",
			seen:   running(deprovisioning, nodes.Error, failed(provisioningError, 1), crowded),
			want:   want{status: isDelayed, count: 1, after: rules.Retry},
		},
		"cleaning again, delayed": {
			reason: "Ironic works on as many hosts as it may",
			seen:   running(deprovisioning, nodes.Manageable, crowded),
			want:   want{status: isDelayed, after: rules.Retry},
		},
		"cleaning failed": {
			reason: "Ironic says why", seen: running(deprovisioning, nodes.CleanFail, lastError("no answer")),
			want: want{
				status: isError, error: provisioningError, text: "Cleaning failed: no answer", count: 1, after: rules.Retry,
			},
		},
		"cleaning failed too often": {
			reason: "a host that is deleted goes as it is",
			seen: running(deprovisioning, nodes.CleanFail, lastError("no answer"), deleted,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status.ErrorCount = 3 })),
			want: want{
				state: bmov1alpha1.StatePoweringOffBeforeDelete, status: isError, error: provisioningError, count: 4,
				text: "Cleaning failed: no answer",
			},
		},
		"cleaning again": {
			reason: "after a failed cleaning", seen: running(deprovisioning, nodes.Manageable),
			want: want{call: to(nodes.TargetProvide), after: rules.Poll},
		},
		"no node and no credentials": {
			reason: "a host that is deleted cannot be cleaned then",
			seen:   running(deprovisioning, "", noNodeButOn, noSecret, deleted),
			want:   want{state: bmov1alpha1.StateDeleting},
		},
		"credentials that were wrong once": {
			reason: "they may be right the next time",
			seen:   running(deprovisioning, nodes.Verifying, deleted, failed(bmov1alpha1.RegistrationError, 3)),
			want:   want{status: isOK, count: 3, after: rules.Poll},
		},
		"other errors before": {
			reason: "only credentials that stay wrong make cleaning impossible",
			seen:   running(deprovisioning, nodes.Cleaning, deleted, failed(provisioningError, 4)),
			want:   want{status: isOK, count: 4, after: rules.Poll},
		},
		"wrong credentials": {
			reason: "a host that is deleted cannot be cleaned then",
			seen:   running(deprovisioning, nodes.Enroll, deleted, failed(bmov1alpha1.RegistrationError, 4)),
			want: want{
				state: bmov1alpha1.StateDeleting, error: bmov1alpha1.RegistrationError, text: "before", count: 4,
			},
		},
	})
}

func TestDeletion(t *testing.T) {
	const deleting, poweringOff = bmov1alpha1.StateDeleting, bmov1alpha1.StatePoweringOffBeforeDelete
	const powerError = bmov1alpha1.PowerManagementError
	stories := map[string]story{
		"node of a running host": {
			reason: "Ironic removes any node in maintenance", seen: running(deleting, nodes.Active, deleted),
			want: want{call: step.Maintenance{On: true, Reason: "BMO removes the node."}},
		},
		"node in maintenance": {
			reason: "it can go",
			seen: running(deleting, nodes.Active, deleted,
				onNode(func(node *nodes.Node) { node.Maintenance = true })),
			want: want{call: step.Remove{}},
		},
		"node that was enrolled": {
			reason: "it can go", seen: seen(deleting, nodes.Enroll, deleted), want: want{call: step.Remove{}},
		},
		"node that is being verified": {
			reason: "it is locked", seen: seen(deleting, nodes.Verifying, deleted), want: want{after: rules.Poll},
		},
		"node with an instance": {
			reason: "Ironic keeps a node with an instance",
			seen:   seen(deleting, nodes.Available, deleted, onNode(deployed)),
			want:   want{call: update(nodes.UpdateOperation{Op: nodes.RemoveOp, Path: "/instance_uuid"})},
		},
		"node without an instance": {
			reason: "it can go", seen: seen(deleting, nodes.Available, deleted), want: want{call: step.Remove{}},
		},
		"no node": {
			reason: "the Secret is not needed any more", seen: seen(deleting, "", deleted, noNode),
			want: want{chore: step.ReleaseSecret},
		},
		"nothing": {
			reason: "the host may go", seen: seen(deleting, "", deleted, noNode, noSecret),
			want: want{after: step.Never},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if len(host.Finalizers) > 0 {
					t.Errorf("finalizers: %v", host.Finalizers)
				}
			},
		},
		"on": {
			reason: "a host that is deleted must not keep running", seen: seen(poweringOff, nodes.Manageable, deleted, isOn),
			want: want{call: power(nodes.PowerOff), after: rules.Poll},
		},
		"off": {
			reason: "it does not run",
			seen: seen(poweringOff, nodes.Manageable, deleted, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.ErrorCount, host.Status.PoweredOn = 1, true
			})),
			want: want{state: deleting},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if host.Status.PoweredOn {
					t.Error("the host counts as on")
				}
			},
		},
		"going off": {
			reason: "Ironic is at it",
			seen: seen(poweringOff, nodes.Manageable, deleted, isOn,
				onNode(func(node *nodes.Node) { node.TargetPowerState = "power off" })),
			want: want{after: rules.Poll},
		},
		"off while inspected": {
			reason: "Ironic would refuse", seen: seen(poweringOff, nodes.InspectWait, deleted, isOn),
			want: want{call: to(nodes.TargetAbort), after: rules.Poll},
		},
		"off after an interrupted inspection": {
			reason: "Ironic would refuse",
			seen: seen(poweringOff, nodes.InspectFail, deleted, isOn,
				onNode(func(node *nodes.Node) { node.TargetProvisionState = "manageable" })),
			want: want{call: to(nodes.TargetManage), after: rules.Poll},
		},
		"off while cleaned against the wish of the user": {
			reason: "nobody wants the cleaning",
			seen: seen(poweringOff, nodes.CleanWait, deleted, isOn, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeDisabled
			})),
			want: want{call: to(nodes.TargetAbort), after: rules.Poll},
		},
		"off after a failed inspection": {
			reason: "nothing is in the way", seen: seen(poweringOff, nodes.InspectFail, deleted, isOn),
			want: want{call: power(nodes.PowerOff), after: rules.Poll},
		},
		"off while something else goes on": {
			reason: "Ironic would refuse",
			seen: seen(poweringOff, nodes.Manageable, deleted, isOn,
				onNode(func(node *nodes.Node) { node.TargetProvisionState = "available" })),
			want: want{after: rules.Poll},
		},
		"off with an address that cannot be used": {
			reason: "nobody will correct it, so it is counted",
			seen: seen(poweringOff, nodes.Manageable, deleted, isOn, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.BMC.Address = "x"
			})),
			want: want{
				status: isError, error: bmov1alpha1.RegistrationError, count: 1, after: rules.Retry,
				text: `the BMC address "x" cannot be used: write lab+http://... or lab+https://...`,
			},
		},
		"off while cleaned": {
			reason: "what was begun is finished", seen: seen(poweringOff, nodes.CleanWait, deleted, isOn),
			want: want{after: rules.Poll},
		},
		"off failed": {
			reason: "Ironic says why", seen: seen(poweringOff, nodes.Manageable, deleted, isOn, lastError("no answer")),
			want: want{status: isError, error: powerError, text: "no answer", count: 1, after: rules.Retry},
		},
		"off failed again": {
			reason: "the time of the back-off is over",
			seen:   seen(poweringOff, nodes.Manageable, deleted, isOn, lastError("no answer"), failed(powerError, 1)),
			want:   want{status: isOK, count: 1, call: power(nodes.PowerOff), after: rules.Poll},
		},
		"off failed too often": {
			reason: "the host goes as it is",
			seen: seen(poweringOff, nodes.Manageable, deleted, isOn, lastError("no answer"),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status.ErrorCount = 3 })),
			want: want{state: deleting, status: isError, error: powerError, text: "no answer", count: 4},
		},
		"off is disabled": {
			reason: "the host must never be off",
			seen: seen(poweringOff, nodes.Manageable, deleted, isOn, func(s *step.Seen) {
				s.Host.Spec.DisablePowerOff = true
				s.Node.DisablePowerOff = true
			}),
			want: want{state: deleting},
		},
	}
	for from, to := range map[bmov1alpha1.ProvisioningState]bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateRegistering:           deleting,
		bmov1alpha1.StateInspecting:            poweringOff,
		bmov1alpha1.StatePreparing:             poweringOff,
		bmov1alpha1.StateAvailable:             poweringOff,
		bmov1alpha1.StateExternallyProvisioned: poweringOff,
		bmov1alpha1.StateProvisioning:          bmov1alpha1.StateDeprovisioning,
		bmov1alpha1.StateProvisioned:           bmov1alpha1.StateDeprovisioning,
	} {
		stories["from "+string(from)] = story{
			reason: "a host is left as clean as it can be", seen: running(from, nodes.Active, deleted), want: want{state: to},
		}
	}
	runNext(t, stories)
}

func TestDetachment(t *testing.T) {
	const provisioned = bmov1alpha1.StateProvisioned
	isDetached := onHost(func(host *bmov1alpha1.BareMetalHost) {
		host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDetached
	})
	detach := func(value string) func(*step.Seen) { return annotated(bmov1alpha1.DetachedAnnotation, value) }
	runNext(t, map[string]story{
		"begun": {
			reason: "Ironic removes any node in maintenance", seen: running(provisioned, nodes.Active, detach("")),
			want: want{call: step.Maintenance{On: true, Reason: "BMO removes the node."}},
		},
		"done": {
			reason: "Ironic knows nothing of the host, which keeps its state",
			seen:   running(provisioned, "", noNodeButOn, detach("true")),
			want:   want{status: bmov1alpha1.OperationalStatusDetached, after: rules.Steady},
		},
		"over": {
			reason: "the host is registered again", seen: running(provisioned, "", noNodeButOn, isDetached),
			want: want{status: isOK, call: enroll()},
		},
		"over with an error": {
			reason: "the error is still there",
			seen:   running(provisioned, "", noNodeButOn, failed(bmov1alpha1.ProvisionedRegistrationError, 1), isDetached),
			want: want{
				status: isError, count: 1, call: enroll(),
				error: bmov1alpha1.ProvisionedRegistrationError, text: "before",
			},
		},
		"not yet": {
			reason: "Ironic finishes what it is at",
			seen:   running(bmov1alpha1.StateDeprovisioning, nodes.Cleaning, detach("")), want: want{after: rules.Poll},
		},
		"by force": {
			reason: "the user insists",
			seen:   seen(bmov1alpha1.StateProvisioning, nodes.DeployWait, wantsImage, detach(`{"force":true}`)),
			want:   want{call: to(nodes.TargetAbort), after: rules.Poll},
		},
		"deleted": {
			reason: "a detached host is neither cleaned nor switched off",
			seen:   running(provisioned, "", noNodeButOn, detach(""), deleted, isDetached),
			want:   want{state: bmov1alpha1.StateDeleting},
		},
		"deleted before it was detached": {
			reason: "the annotation is enough", seen: running(provisioned, nodes.Active, detach(""), deleted),
			want: want{state: bmov1alpha1.StateDeleting},
		},
		"deleted later": {
			reason: "the user wants it back first",
			seen:   running(provisioned, "", noNodeButOn, detach(`{"deleteAction":"delay"}`), deleted, isDetached),
			want:   want{after: rules.Steady},
		},
	})
}
