package step_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

// Short words for the tables.
const (
	isError   = bmov1alpha1.OperationalStatusError
	isOK      = bmov1alpha1.OperationalStatusOK
	isDelayed = bmov1alpha1.OperationalStatus(bmov1alpha1.OperationalStatusDelayed)
)

func to(target nodes.TargetProvisionState) step.Call { return step.Provision{Target: target} }

func TestInspection(t *testing.T) {
	const inspecting, preparing = bmov1alpha1.StateInspecting, bmov1alpha1.StatePreparing
	inspected := func(s *step.Seen) { s.Inventory = &bmov1alpha1.HardwareDetails{Hostname: "found"} }
	runNext(t, map[string]story{
		"started": {
			reason: "nobody has looked at the hardware yet",
			seen:   seen(inspecting, nodes.Manageable),
			want:   want{call: to(nodes.TargetInspect), after: rules.Poll},
		},
		"delayed": {
			reason: "Ironic works on as many hosts as it may",
			seen:   seen(inspecting, nodes.Manageable, crowded),
			want:   want{status: isDelayed, after: rules.Retry},
		},
		"delayed after an error": {
			reason: "that the host has to wait is no error",
			seen:   seen(inspecting, nodes.InspectFail, crowded, failed(bmov1alpha1.InspectionError, 1)),
			want:   want{status: isDelayed, count: 1, after: rules.Retry},
		},
		"started at last": {
			reason: "another host is done",
			seen: seen(inspecting, nodes.Manageable, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.OperationalStatus = isDelayed
			})),
			want: want{status: isOK, call: to(nodes.TargetInspect), after: rules.Poll},
		},
		"running": {
			reason: "a host that is being inspected has its place", seen: seen(inspecting, nodes.Inspecting, crowded),
			want: want{after: rules.Poll},
		},
		"finished": {
			reason: "what was found is kept in an object of its own",
			seen:   seen(inspecting, nodes.Manageable, inspected, failed(bmov1alpha1.InspectionError, 1)),
			want:   want{state: preparing, status: isOK, chore: step.RecordHardware},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if host.Status.HardwareDetails == nil || host.Status.HardwareDetails.Hostname != "found" {
					t.Errorf("hardware: %+v", host.Status.HardwareDetails)
				}
			},
		},
		"failed": {
			reason: "Ironic says why", seen: seen(inspecting, nodes.InspectFail, lastError("no answer")),
			want: want{status: isError, error: bmov1alpha1.InspectionError, text: "no answer", count: 1, after: rules.Retry},
		},
		"failed again": {
			reason: "the time of the back-off is over",
			seen:   seen(inspecting, nodes.InspectFail, lastError("no answer"), failed(bmov1alpha1.InspectionError, 1)),
			want:   want{status: isOK, count: 1, call: to(nodes.TargetInspect), after: rules.Poll},
		},
		"not wanted any more": {
			reason: "the user has thought better of it",
			seen: seen(inspecting, nodes.Manageable, annotated("inspect.metal3.io", "disabled"),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status.ErrorCount = 1 })),
			want: want{state: preparing},
		},
		"wanted again": {
			reason: "an old result does not count, and the wish is granted",
			seen:   seen(inspecting, nodes.Manageable, inspected, annotated("inspect.metal3.io", "")),
			want:   want{call: to(nodes.TargetInspect), after: rules.Poll},
			check:  hasNoAnnotations,
		},
		"wanted again, delayed": {
			reason: "a wish that is not granted stays",
			seen:   seen(inspecting, nodes.Manageable, inspected, crowded, annotated("inspect.metal3.io", "")),
			want:   want{status: isDelayed, after: rules.Retry},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if len(host.Annotations) != 1 {
					t.Errorf("annotations: %v", host.Annotations)
				}
			},
		},
		"of an available node": {
			reason: "Ironic inspects only what is manageable", seen: seen(inspecting, nodes.Available),
			want: want{call: to(nodes.TargetManage), after: rules.Poll},
		},
	})
}

func hasNoAnnotations(t *testing.T, host *bmov1alpha1.BareMetalHost) {
	t.Helper()
	if len(host.Annotations) > 0 {
		t.Errorf("annotations: %v", host.Annotations)
	}
}

func TestPreparingAndAvailable(t *testing.T) {
	const preparing, available = bmov1alpha1.StatePreparing, bmov1alpha1.StateAvailable
	runNext(t, map[string]story{
		"prepared": {
			reason: "there is nothing to change, and the error before is over",
			seen:   seen(preparing, nodes.Manageable, failed(bmov1alpha1.PreparationError, 1)),
			want:   want{state: available, status: isOK},
		},
		"preparation failed": {
			reason: "Ironic says why", seen: seen(preparing, nodes.CleanFail, lastError("no ramdisk")),
			want: want{status: isError, error: bmov1alpha1.PreparationError, text: "no ramdisk", count: 1, after: rules.Retry},
		},
		"preparation failed, maintenance": {
			reason: "Ironic does nothing with a node in maintenance",
			seen: seen(preparing, nodes.CleanFail, failed(bmov1alpha1.PreparationError, 1),
				onNode(func(node *nodes.Node) { node.Maintenance = true })),
			want: want{
				status: isError, error: bmov1alpha1.PreparationError, text: "before", count: 1, call: step.Maintenance{},
			},
		},
		"preparation failed again": {
			reason: "the time of the back-off is over",
			seen:   seen(preparing, nodes.CleanFail, failed(bmov1alpha1.PreparationError, 1)),
			want:   want{status: isOK, count: 1, call: to(nodes.TargetManage), after: rules.Poll},
		},
		"available and off": {
			reason: "nobody wants it on", seen: seen(available, nodes.Manageable, offline), want: want{after: rules.Steady},
		},
		"given to others": {
			reason: "somebody else has put something on the host", seen: seen(available, nodes.Available, external),
			want: want{state: bmov1alpha1.StateExternallyProvisioned},
		},
		"taken back": {
			reason: "the host has to be inspected, since it never was",
			seen:   seen(bmov1alpha1.StateExternallyProvisioned, nodes.Active),
			want:   want{state: bmov1alpha1.StateInspecting},
		},
		"taken back with known hardware": {
			reason: "the hardware is known",
			seen: seen(bmov1alpha1.StateExternallyProvisioned, nodes.Active, onHost(
				func(host *bmov1alpha1.BareMetalHost) { host.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{} })),
			want: want{state: preparing},
		},
		"inspect an available host": {
			reason: "the user wishes it", seen: seen(available, nodes.Available, annotated("inspect.metal3.io", "")),
			want: want{state: bmov1alpha1.StateInspecting},
		},
		"an image": {
			reason: "somebody wants the host, and an error before must not undo it at once",
			seen:   seen(available, nodes.Manageable, wantsImage, failed(bmov1alpha1.PowerManagementError, 1)),
			want:   want{state: bmov1alpha1.StateProvisioning, status: isOK, count: 1},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if host.Status.Provisioning.BootMode != bmov1alpha1.UEFI {
					t.Errorf("boot mode: %q", host.Status.Provisioning.BootMode)
				}
			},
		},
		"an image for later": {
			reason: "a host that shall be off gets no image",
			seen:   seen(available, nodes.Manageable, wantsImage, offline), want: want{after: rules.Steady},
		},
	})
}

func TestProvisioning(t *testing.T) {
	const provisioning = bmov1alpha1.StateProvisioning
	const deprovisioning, provisioned = bmov1alpha1.StateDeprovisioning, bmov1alpha1.StateProvisioned
	custom := onHost(func(host *bmov1alpha1.BareMetalHost) {
		host.Spec.Image = nil
		host.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"}
	})
	runNext(t, map[string]story{
		"cleaned first": {
			reason: "Ironic deploys only what is available", seen: seen(provisioning, nodes.Manageable, wantsImage),
			want: want{call: to(nodes.TargetProvide), after: rules.Poll},
		},
		"cleaned later": {
			reason: "Ironic works on as many hosts as it may",
			seen:   seen(provisioning, nodes.Manageable, wantsImage, crowded),
			want:   want{status: isDelayed, after: rules.Retry},
		},
		"cleaning": {
			reason: "Ironic is at work", seen: seen(provisioning, nodes.Cleaning, wantsImage, crowded),
			want: want{after: rules.Poll},
		},
		"told the image": {
			reason: "Ironic has to know what to write", seen: seen(provisioning, nodes.Available, wantsImage),
			want: want{call: update(
				add("/instance_uuid", hostUID),
				add("/instance_info/image_source", imageURL),
				add("/instance_info/image_os_hash_algo", "sha256"),
				add("/instance_info/image_os_hash_value", imageURL+".sha256sum"),
			)},
		},
		"told a checksum of unknown kind": {
			reason: "Ironic finds out which it is, and the old value must go",
			seen: seen(provisioning, nodes.Available, wantsImage, onNode(deployed),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image.ChecksumType = "auto" })),
			want: want{call: update(
				add("/instance_info/image_checksum", imageURL+".sha256sum"),
				nodes.UpdateOperation{Op: nodes.RemoveOp, Path: "/instance_info/image_os_hash_algo"},
				nodes.UpdateOperation{Op: nodes.RemoveOp, Path: "/instance_info/image_os_hash_value"},
			)},
		},
		"deployed": {
			reason: "Ironic knows the image", seen: seen(provisioning, nodes.Available, wantsImage, onNode(deployed)),
			want: want{call: step.Deploy{}, after: rules.Poll},
		},
		"delayed": {
			reason: "Ironic works on as many hosts as it may",
			seen:   seen(provisioning, nodes.Available, wantsImage, onNode(deployed), crowded),
			want:   want{status: isDelayed, after: rules.Retry},
		},
		"custom": {
			reason: "the site has its own way to deploy",
			seen: seen(provisioning, nodes.Available, custom,
				onNode(func(node *nodes.Node) { node.InstanceUUID = hostUID })),
			want: want{after: rules.Poll, call: step.Deploy{Steps: []nodes.DeployStep{
				{Interface: nodes.InterfaceDeploy, Step: "install", Args: map[string]any{}, Priority: 80},
			}}},
		},
		"custom with an image": {
			reason: "a custom deploy may know what to do without a checksum",
			seen: seen(provisioning, nodes.Available, custom,
				onNode(func(node *nodes.Node) { node.InstanceUUID = hostUID }),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = &bmov1alpha1.Image{URL: imageURL} })),
			want: want{call: update(add("/instance_info/image_source", imageURL))},
		},
		"deploying": {
			reason: "Ironic is at work", seen: seen(provisioning, nodes.Deploying, wantsImage), want: want{after: rules.Poll},
		},
		"done": {
			reason: "the image is on the host, and requests for a reboot are overtaken",
			seen: seen(provisioning, nodes.Active, wantsImage, isOn, annotated("reboot.metal3.io", ""),
				annotated("reboot.metal3.io/me", ""), onHost(func(host *bmov1alpha1.BareMetalHost) {
					host.Status.OperationalStatus, host.Status.ErrorCount = isDelayed, 1
				})),
			want: want{state: provisioned, status: isOK},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				hasNoAnnotations(t, host)
				if diff := cmp.Diff(*image(), host.Status.Provisioning.Image); diff != "" {
					t.Errorf("image (-want +got):\n%s", diff)
				}
			},
		},
		"failed": {
			reason: "Ironic says why",
			seen:   seen(provisioning, nodes.DeployFail, wantsImage, onNode(deployed), lastError("404")),
			want: want{
				status: isError, error: bmov1alpha1.ProvisioningError, text: "Image provisioning failed: 404", count: 1,
				after: rules.Retry,
			},
		},
		"failed with another image": {
			reason: "the image that failed is not wanted any more",
			seen: seen(provisioning, nodes.DeployFail, wantsImage, onNode(deployed), lastError("404"),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image.URL = "http://other" })),
			want: want{call: update(add("/instance_info/image_source", "http://other"))},
		},
		"failed before": {
			reason: "the host gives up what it got, then all starts over",
			seen:   seen(provisioning, nodes.DeployFail, wantsImage, failed(bmov1alpha1.ProvisioningError, 1)),
			want:   want{state: deprovisioning, error: bmov1alpha1.ProvisioningError, text: "before", count: 1},
		},
		"cancelled": {
			reason: "the image is not wanted any more", seen: seen(provisioning, nodes.Deploying),
			want: want{state: deprovisioning},
		},
		"without a checksum": {
			reason: "an image that nobody can check is not written",
			seen: seen(provisioning, nodes.Available, wantsImage,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image.Checksum = "" })),
			want: want{
				status: isError, error: bmov1alpha1.ProvisioningError, count: 1, after: rules.Retry,
				text: "Validation failed: checksum is required for normal images",
			},
		},
		"a live ISO": {
			reason: "this stand-in does not know them",
			seen: seen(provisioning, nodes.Available, wantsImage, onHost(func(host *bmov1alpha1.BareMetalHost) {
				format := "live-iso"
				host.Spec.Image.DiskFormat = &format
			})),
			want: want{
				status: isError, error: bmov1alpha1.ProvisioningError, count: 1, after: rules.Retry,
				text: "Validation failed: BMO of labs knows neither live ISO images nor registries with credentials",
			},
		},
		"cleaning failed": {
			reason: "it is tried again", seen: seen(provisioning, nodes.CleanFail, wantsImage),
			want: want{call: to(nodes.TargetManage), after: rules.Poll},
		},
		"as it shall be": {
			reason: "the image is on the host", seen: running(provisioned, nodes.Active), want: want{after: rules.Steady},
		},
		"another image": {
			reason: "the host is cleaned before it gets it",
			seen: running(provisioned, nodes.Active,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image.URL = "http://other" })),
			want: want{state: deprovisioning},
		},
		"no image any more": {
			reason: "the host is released",
			seen: running(provisioned, nodes.Active,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.Image = nil })),
			want: want{state: deprovisioning},
		},
		"another way to deploy": {
			reason: "what was deployed the other way goes",
			seen: seen(provisioned, nodes.Active, custom, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.Provisioning.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "other"}
			})),
			want: want{state: deprovisioning},
		},
		"no other way to deploy any more": {
			reason: "what was deployed the other way goes",
			seen: seen(provisioned, nodes.Active, wantsImage, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.Provisioning.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "other"}
			})),
			want: want{state: deprovisioning},
		},
	})
}

func TestConfigDrive(t *testing.T) {
	host := seen(bmov1alpha1.StateProvisioning, "").Host
	whoami := map[string]any{
		"uuid": hostUID, "metal3-namespace": "metal3", "metal3-name": "host",
		"local-hostname": "host", "local_hostname": "host", "name": "host",
	}
	named := map[string]any{"providerid": "metal3/host/machine"}
	for key, value := range whoami {
		named[key] = value
	}
	named["local-hostname"] = "machine"
	for name, row := range map[string]struct {
		data step.Data
		want nodes.ConfigDrive
	}{
		"nothing": {want: nodes.ConfigDrive{MetaData: whoami}},
		"everything": {
			data: step.Data{
				User: "#cloud-config\n", Network: `{"links": []}`, Meta: "local-hostname: machine\nprovider: x\n",
			},
			want: nodes.ConfigDrive{
				UserData: "#cloud-config\n", NetworkData: map[string]any{"links": []any{}}, MetaData: map[string]any{
					"uuid": hostUID, "metal3-namespace": "metal3", "metal3-name": "host", "local-hostname": "machine",
					"local_hostname": "host", "name": "host", "provider": "x",
				},
			},
		},
		"meta-data on top": {
			data: step.Data{Meta: `{"local-hostname": "machine", "providerid": "metal3/host/machine"}`},
			want: nodes.ConfigDrive{MetaData: named},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := step.ConfigDrive(host, row.data)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(row.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	const secret = "hunter2"
	for name, data := range map[string]step.Data{"network": {Network: "- " + secret}, "meta": {Meta: "- " + secret}} {
		t.Run("broken "+name, func(t *testing.T) {
			_, err := step.ConfigDrive(host, data)
			if err == nil {
				t.Fatal("taken for good")
			}
			if want := name; !containsAll(err.Error(), want) || containsAll(err.Error(), secret) {
				t.Errorf("the error %q has to name %q and not what it read", err, want)
			}
		})
	}
}
