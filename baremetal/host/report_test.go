package host_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func TestProgress(t *testing.T) {
	inState := func(is bmov1alpha1.ProvisioningState, options ...build.HostOption) *bmov1alpha1.BareMetalHost {
		return build.Host("host-0", append([]build.HostOption{build.State(is)}, options...)...)
	}
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want outcome.Outcome
	}{
		"a provisioned host is done":             {inState(bmov1alpha1.StateProvisioned), outcome.Done()},
		"an externally provisioned host is done": {inState(bmov1alpha1.StateExternallyProvisioned), outcome.Done()},
		"an error after provisioning does not undo it": {
			inState(bmov1alpha1.StateProvisioned, build.Error("no power")), outcome.Done(),
		},
		"a host that is being provisioned is waited for": {
			inState(bmov1alpha1.StateProvisioning),
			outcome.Waiting(infrav1.HostProvisioningReason,
				"Waiting for BareMetalHost host-0 to be provisioned (state: provisioning)"),
		},
		"a host that a user keeps off is an error": {
			edit(inState(bmov1alpha1.StateAvailable), image, func(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = false }),
			outcome.Waiting(infrav1.HostErrorReason,
				"spec.online of BareMetalHost host-0 is false, so it is not provisioned: set it to true"),
		},
		"a host that BMO begins to provision is waited for": {
			edit(inState(bmov1alpha1.StateAvailable), image, func(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = true }),
			outcome.Waiting(infrav1.HostProvisioningReason,
				"Waiting for BareMetalHost host-0 to be provisioned (state: available)"),
		},
		"a host without a status is waited for": {
			build.Host("host-0"),
			outcome.Waiting(infrav1.HostProvisioningReason,
				"Waiting for BareMetalHost host-0 to be provisioned (state: not registered yet)"),
		},
		"a host that is being deleted is an error": {
			edit(inState(bmov1alpha1.StateDeprovisioning), beingDeleted),
			outcome.Waiting(infrav1.HostErrorReason,
				"BareMetalHost host-0 is being deleted: delete the Machine to replace it"),
		},
		"an error is quoted": {
			inState(bmov1alpha1.StateProvisioning, build.Error("image not found")),
			outcome.Waiting(infrav1.HostErrorReason, "BareMetalHost host-0 reports provisioning error: image not found"),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, host.Progress(tc.host), cmp.AllowUnexported(outcome.Outcome{})); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestRunning(t *testing.T) {
	provisioned := func(options ...build.HostOption) *bmov1alpha1.BareMetalHost {
		return build.Host("host-0", append([]build.HostOption{build.Provisioned()}, options...)...)
	}
	cases := map[string]struct {
		host     *bmov1alpha1.BareMetalHost
		want     string
		troubled bool
	}{
		"no known problem": {provisioned(), "BareMetalHost host-0 is provisioned", false},
		"an error after provisioning": {
			provisioned(build.Error("no\n power")),
			"BareMetalHost host-0 is provisioned; it reports provisioning error: no power", true,
		},
		"a detached host": {
			provisioned(annotated(bmov1alpha1.DetachedAnnotation, "")),
			"BareMetalHost host-0 is provisioned; it is detached: remove its annotation baremetalhost.metal3.io/detached", true,
		},
		"a host that is being deleted": {
			edit(provisioned(), beingDeleted),
			"BareMetalHost host-0 is provisioned; it is being deleted: delete the Machine to replace it", true,
		},
		"the pause of the provider is no problem": {
			provisioned(build.Paused(infrav1.HostPausedByProvider)), "BareMetalHost host-0 is provisioned", false,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got, troubled := host.Running(tc.host); got != tc.want || troubled != tc.troubled {
				t.Errorf("got  %q, %t\nwant %q, %t", got, troubled, tc.want, tc.troubled)
			}
		})
	}
}

func TestProblem(t *testing.T) {
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want string
	}{
		"no known problem": {host: available("host-0")},
		"an error with its type": {
			host: available("host-0", build.Error("no power")), want: "BareMetalHost host-0 reports provisioning error: no power",
		},
		"an error without a type": {
			host: edit(available("host-0"), func(h *bmov1alpha1.BareMetalHost) { h.Status.ErrorMessage = "no power" }),
			want: "BareMetalHost host-0 reports error: no power",
		},
		"an error over several lines becomes one": {
			host: available("host-0", build.Error("no\n\n  power\t")), want: "BareMetalHost host-0 reports provisioning error: no power",
		},
		"a pause by the user": {
			host: available("host-0", build.Paused("user")),
			want: "BareMetalHost host-0 is paused: remove its annotation baremetalhost.metal3.io/paused",
		},
		"the pause of the provider is no problem": {host: available("host-0", build.Paused(infrav1.HostPausedByProvider))},
		"a detached host": {
			host: available("host-0", annotated(bmov1alpha1.DetachedAnnotation, "")),
			want: "BareMetalHost host-0 is detached: remove its annotation baremetalhost.metal3.io/detached",
		},
		"the error comes first": {
			host: available("host-0", build.Error("no power"), build.Paused("user")),
			want: "BareMetalHost host-0 reports provisioning error: no power",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := host.Problem(tc.host); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}

func TestAddresses(t *testing.T) {
	internal := func(ip string) clusterv1.MachineAddress {
		return clusterv1.MachineAddress{Type: clusterv1.MachineInternalIP, Address: ip}
	}
	names := []clusterv1.MachineAddress{
		{Type: clusterv1.MachineHostName, Address: "host-0"}, {Type: clusterv1.MachineInternalDNS, Address: "host-0"},
	}
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want []clusterv1.MachineAddress
	}{
		"a host that was not inspected has none": {host: build.Host("host-0")},
		"a host without interfaces has its name": {host: available("host-0"), want: names},
		"each address comes once, in the order of the interfaces": {
			host: available("host-0", build.NIC("eth0", "", "192.0.2.2"), build.NIC("eth1", "", ""),
				build.NIC("eth0", "", "2001:db8::2"), build.NIC("eth2", "", "192.0.2.2"), build.NIC("eth3", "", "192.0.2.1")),
			want: append([]clusterv1.MachineAddress{
				internal("192.0.2.2"), internal("2001:db8::2"), internal("192.0.2.1"),
			}, names...),
		},
		"a host without a name has its addresses": {
			host: edit(available("host-0", build.NIC("eth0", "", "192.0.2.2")), func(h *bmov1alpha1.BareMetalHost) {
				h.Status.HardwareDetails.Hostname = ""
			}),
			want: []clusterv1.MachineAddress{internal("192.0.2.2")},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, host.Addresses(tc.host)); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestProviderID(t *testing.T) {
	const want = "metal3://metal3/host-0/machine-0"
	if got := host.ProviderID("metal3", "host-0", "machine-0"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, foreign := range []string{
		"", "metal3", "metal3://", "metal3:///host/machine", "metal3://ns//machine", "metal3://ns/host/",
		"metal3://ns/host", "metal3://ns/host/machine/more", "aws://ns/host/machine", "Metal3://ns/host/machine",
		"metal3://8f2c6c0e-6f1e-4ad2-9c07-2f1a3d1c0b52",
	} {
		if namespace, name, machine, ok := host.ParseProviderID(foreign); ok || namespace+name+machine != "" {
			t.Errorf("%q was read as %q, %q, %q", foreign, namespace, name, machine)
		}
	}
}

// FuzzParseProviderID expects that ProviderID reproduces every valid provider ID from its parts.
func FuzzParseProviderID(f *testing.F) {
	for _, seed := range []string{"metal3://metal3/host-0/machine-0", "metal3://a/b", "metal3://a/b/c/d", "aws:///x", ""} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		namespace, name, machine, ok := host.ParseProviderID(text)
		if !ok {
			if namespace+name+machine != "" {
				t.Errorf("%q is invalid and returned %q, %q, %q", text, namespace, name, machine)
			}
			return
		}
		for _, part := range []string{namespace, name, machine} {
			if part == "" || strings.Contains(part, "/") {
				t.Errorf("%q has the part %q", text, part)
			}
		}
		if again := host.ProviderID(namespace, name, machine); again != text {
			t.Errorf("%q was read as parts of %q", text, again)
		}
	})
}

func TestArrived(t *testing.T) {
	moved := build.Host("host-0", build.Annotations(map[string]string{bmov1alpha1.StatusAnnotation: "{}"}))
	if !host.Arrived(moved) {
		t.Error("got false for a host with its status in the annotation")
	}
	moved.Status.Provisioning.State = bmov1alpha1.StateProvisioned
	if host.Arrived(moved) {
		t.Error("got true after BMO restored the status")
	}
	if host.Arrived(build.Host("host-0")) {
		t.Error("got true for a new host")
	}
}

func TestDeletionProblem(t *testing.T) {
	cases := map[string]struct {
		host *bmov1alpha1.BareMetalHost
		want string
	}{
		"no known problem": {host: available("host-0")},
		"an error":         {available("host-0", build.Error("no power")), "BareMetalHost host-0 reports provisioning error: no power"},
		"a pause by the user comes before an error": {
			available("host-0", build.Error("no power"), build.Paused("")),
			"BareMetalHost host-0 is paused: remove its annotation baremetalhost.metal3.io/paused",
		},
		"a pause by the provider comes before an error": {
			available("host-0", build.Error("no power"), build.Paused(infrav1.HostPausedByProvider)),
			"BareMetalHost host-0 is paused: see its annotation infrastructure.cluster.x-k8s.io/pause-reason",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := host.DeletionProblem(tc.host); got != tc.want {
				t.Errorf("got  %q\nwant %q", got, tc.want)
			}
		})
	}
}
