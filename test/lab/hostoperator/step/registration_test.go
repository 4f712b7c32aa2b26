package step_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2/openstack/baremetal/v1/nodes"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

func enroll() step.Call {
	return step.Enroll{Node: nodes.CreateOpts{
		Name: "metal3~host", Driver: "lab", AutomatedClean: ptr.To(true), DisablePowerOff: ptr.To(false),
		DriverInfo: map[string]any{
			"lab_address": "http://172.22.0.1:8000/machines/host", "lab_username": "admin", "lab_password": "secret",
		},
	}}
}

func driverInfo(password string) nodes.UpdateOperation {
	return add("/driver_info", map[string]any{
		"lab_address": "http://172.22.0.1:8000/machines/host", "lab_username": "admin", "lab_password": password,
	})
}

func untried(s *step.Seen) {
	s.Host.Status.TriedCredentials = bmov1alpha1.CredentialsStatus{}
	s.Host.Status.GoodCredentials = bmov1alpha1.CredentialsStatus{}
}

func TestRegistration(t *testing.T) {
	const registering = bmov1alpha1.StateRegistering
	const failure, ok = bmov1alpha1.OperationalStatusError, bmov1alpha1.OperationalStatusOK
	runNext(t, map[string]story{
		"enrolled": {
			reason: "Ironic hears of the host for the first time",
			seen:   seen(registering, "", noNode, untried),
			want:   want{call: enroll()},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if !host.Status.TriedCredentials.Match(*seen(registering, "").Secret) {
					t.Errorf("tried: %+v", host.Status.TriedCredentials)
				}
			},
		},
		"the MAC address is taken": {
			reason: "two hosts with one address would be mistaken for one another",
			seen:   seen(registering, "", noNode, func(s *step.Seen) { s.Stranger = "metal3~other" }),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: rules.Retry,
				text: "the MAC address 02:22:00:00:00:14 belongs to the node metal3~other already: " +
					"give one of the hosts another bootMACAddress",
			},
		},
		"an address for another driver": {
			reason: "only the user can change it",
			seen: seen(registering, "", noNode,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.Address = "ipmi://10.0.0.1" })),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: step.Never,
				text: `the BMC address "ipmi://10.0.0.1" cannot be used: write lab+http://... or lab+https://...`,
			},
		},
		"no port": {
			reason: "the node of a host is known by its address",
			seen:   seen(registering, nodes.Enroll, func(s *step.Seen) { s.Ports = nil }),
			want:   want{call: step.AddPort{MACAddress: mac, PXE: true}},
		},
		"a port that only the HardwareData know": {
			reason: "an Ironic that lost its database gets all ports back",
			seen: seen(registering, nodes.Enroll, func(s *step.Seen) {
				s.Hardware = &bmov1alpha1.HardwareData{}
				s.Hardware.Spec.HardwareDetails = &bmov1alpha1.HardwareDetails{
					NIC: []bmov1alpha1.NIC{{MAC: "02:22:00:00:00:14"}, {MAC: "02:22:00:00:FF:14"}},
				}
			}),
			want: want{call: step.AddPort{MACAddress: "02:22:00:00:ff:14"}},
		},
		"the ID changes": {
			reason: "a new Ironic gives new IDs",
			seen: seen(registering, nodes.Enroll,
				onNode(func(node *nodes.Node) { node.UUID = "new-id" })),
			want: want{call: step.Provision{Target: nodes.TargetManage}, after: rules.Poll},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if host.Status.Provisioning.ID != "new-id" {
					t.Errorf("ID: %s", host.Status.Provisioning.ID)
				}
			},
		},
		"trying": {
			reason: "Ironic tries the credentials on the way to manageable",
			seen: seen(registering, nodes.Enroll,
				onNode(func(node *nodes.Node) { node.TargetProvisionState = "manageable" })),
			want: want{after: rules.Poll},
		},
		"verifying": {
			reason: "Ironic tries the credentials",
			seen:   seen(registering, nodes.Verifying, failed(bmov1alpha1.RegistrationError, 2)),
			want:   want{status: ok, count: 2, after: rules.Poll},
		},
		"wrong credentials": {
			reason: "Ironic says what is wrong",
			seen:   seen(registering, nodes.Enroll, lastError("401 from the BMC")),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, text: "401 from the BMC", count: 1,
				after: rules.Retry,
			},
		},
		"wrong credentials again": {
			reason: "the time of the back-off is over",
			seen: seen(registering, nodes.Enroll, lastError("401 from the BMC"),
				failed(bmov1alpha1.RegistrationError, 1)),
			want: want{status: ok, count: 1, call: step.Provision{Target: nodes.TargetManage}, after: rules.Poll},
		},
		"wrong credentials for the third time": {
			reason: "the back-off doubles",
			seen: seen(registering, nodes.Enroll, lastError("401 from the BMC"),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status.ErrorCount = 2 })),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, text: "401 from the BMC", count: 3,
				after: 4 * rules.Retry,
			},
		},
		"wrong credentials for the tenth time": {
			reason: "the back-off has a limit",
			seen: seen(registering, nodes.Enroll, lastError("401 from the BMC"),
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status.ErrorCount = 9 })),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, text: "401 from the BMC", count: 10,
				after: rules.RetryLimit,
			},
		},
		"repaired credentials": {
			reason: "a changed Secret is told to Ironic at once",
			seen: seen(registering, nodes.Enroll, lastError("401 from the BMC"), newSecret,
				failed(bmov1alpha1.RegistrationError, 1)),
			want: want{
				error: bmov1alpha1.RegistrationError, text: "401 from the BMC", count: 1, call: update(driverInfo("better")),
			},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if host.Status.TriedCredentials.Version != "8" || host.Status.GoodCredentials.Version != "7" {
					t.Errorf("credentials: %+v", host.Status)
				}
			},
		},
		"new credentials of a host that Ironic knows": {
			reason: "an error from before has nothing to do with them",
			seen: seen(bmov1alpha1.StateAvailable, nodes.Manageable, newSecret, lastError("an old error"),
				onHost(registeredBefore)),
			want: want{call: update(driverInfo("better"))},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if metric := host.Status.OperationHistory.Register; !metric.Start.Equal(&now) || !metric.End.IsZero() {
					t.Errorf("the registration did not begin anew: %+v", metric)
				}
			},
		},
		"credentials that have been tried": {
			reason: "the registration is done, and is told as before",
			seen:   seen(bmov1alpha1.StateAvailable, nodes.Manageable, offline, onHost(registeredBefore)),
			want:   want{after: rules.Steady},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				before := &bmov1alpha1.BareMetalHost{}
				registeredBefore(before)
				if diff := cmp.Diff(before.Status.OperationHistory, host.Status.OperationHistory); diff != "" {
					t.Errorf("history (-before +after):\n%s", diff)
				}
			},
		},
		"an address without a protocol": {
			reason: "only the user can change it",
			seen: seen(registering, "", noNode,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.Address = "lab+172.22.0.1" })),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: step.Never,
				text: `the BMC address "lab+172.22.0.1" cannot be used: write lab+http://... or lab+https://...`,
			},
		},
		"an address without a driver": {
			reason: "only the user can change it",
			seen: seen(registering, "", noNode,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.Address = "http://172.22.0.1" })),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: step.Never,
				text: `the BMC address "http://172.22.0.1" cannot be used: write lab+http://... or lab+https://...`,
			},
		},
		"a safe address": {
			reason: "a management controller may have a certificate",
			seen: seen(registering, nodes.Verifying, onNode(func(node *nodes.Node) {
				node.DriverInfo["lab_address"] = "https://172.22.0.1"
			}), onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.Address = "lab+https://172.22.0.1" })),
			want: want{after: rules.Poll},
		},
		"a renamed address": {
			reason: "the host says where its management controller is",
			seen: seen(bmov1alpha1.StateAvailable, nodes.Manageable, onNode(func(node *nodes.Node) {
				node.DriverInfo["lab_address"] = "http://172.22.0.1:8000/machines/old"
			})),
			want: want{call: update(driverInfo("secret"))},
		},
		"registered": {
			reason: "the credentials are good, and the error is over",
			seen:   seen(registering, nodes.Manageable, failed(bmov1alpha1.RegistrationError, 3)),
			want:   want{state: bmov1alpha1.StateInspecting, status: ok},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if host.Status.OperationHistory.Register.End.IsZero() || host.Status.OperationHistory.Inspect.Start.IsZero() {
					t.Errorf("history: %+v", host.Status.OperationHistory)
				}
			},
		},
		"registered without inspection": {
			reason: "the user does not want one",
			seen: seen(registering, nodes.Manageable, annotated("inspect.metal3.io", "disabled"),
				failed(bmov1alpha1.RegistrationError, 1)),
			want: want{state: bmov1alpha1.StatePreparing, status: ok},
		},
		"registered with an image of others": {
			reason: "the host runs something already",
			seen: seen(registering, nodes.Manageable, external,
				failed(bmov1alpha1.RegistrationError, 1)),
			want: want{state: bmov1alpha1.StateExternallyProvisioned, status: ok},
		},
		"cleaning was not wanted": {
			reason: "the mode may change while the host lives",
			seen: seen(bmov1alpha1.StateAvailable, nodes.Manageable, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeDisabled
			})),
			want: want{call: update(add("/automated_clean", false))},
		},
		"cleaning while Ironic works": {
			reason: "Ironic would refuse",
			seen: seen(bmov1alpha1.StateDeprovisioning, nodes.Cleaning, onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeDisabled
			})),
			want: want{after: rules.Poll},
		},
		"a host that must never be off": {
			reason: "Ironic has to know, because it switches hosts off itself",
			seen: seen(bmov1alpha1.StateAvailable, nodes.Manageable,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.DisablePowerOff = true })),
			want: want{call: update(add("/disable_power_off", true))},
		},
	})
}

// registeredBefore is a registration that was done an hour ago.
func registeredBefore(host *bmov1alpha1.BareMetalHost) {
	hourAgo := metav1.NewTime(now.Add(-time.Hour))
	host.Status.OperationHistory.Register = bmov1alpha1.OperationMetric{Start: hourAgo, End: hourAgo}
}

// An Ironic that lost its database hears of every host again, in every state but those in which it need not know it.
// The list of states is that of what the original does.
func TestEmptyDatabase(t *testing.T) {
	for _, state := range []bmov1alpha1.ProvisioningState{
		bmov1alpha1.StateRegistering, bmov1alpha1.StateInspecting, bmov1alpha1.StatePreparing,
		bmov1alpha1.StateAvailable, bmov1alpha1.StateProvisioning, bmov1alpha1.StateProvisioned,
		bmov1alpha1.StateExternallyProvisioned, bmov1alpha1.StateDeprovisioning,
	} {
		t.Run(string(state), func(t *testing.T) {
			story{
				reason: "the host is enrolled again, and keeps its state",
				seen:   running(state, "", noNodeButOn), want: want{call: enroll()},
			}.judge(t, next(running(state, "", noNodeButOn)))
		})
	}
	const provisioned, external = bmov1alpha1.StateProvisioned, bmov1alpha1.StateExternallyProvisioned
	manage, adopt := step.Provision{Target: nodes.TargetManage}, step.Provision{Target: nodes.TargetAdopt}
	again := func(s *step.Seen) {
		s.Host.Spec.ExternallyProvisioned = s.Host.Status.Provisioning.State == external
	}
	for _, state := range []bmov1alpha1.ProvisioningState{provisioned, external} {
		runNext(t, map[string]story{
			string(state) + " is verified": {
				reason: "Ironic tries the credentials", seen: running(state, nodes.Enroll, again),
				want: want{call: manage, after: rules.Poll},
			},
			string(state) + " is adopted": {
				reason: "Ironic need not do anything to the host", seen: running(state, nodes.Manageable, again),
				want: want{call: adopt, after: rules.Poll},
			},
			string(state) + " is as before": {
				reason: "nothing has happened to the host", seen: running(state, nodes.Active, again),
				want: want{after: rules.Steady},
			},
		})
	}
	runNext(t, map[string]story{
		"provisioning starts over": {
			reason: "nobody can tell how far it had come",
			seen:   seen(bmov1alpha1.StateProvisioning, nodes.Manageable, wantsImage),
			want:   want{call: step.Provision{Target: nodes.TargetProvide}, after: rules.Poll},
		},
		"deprovisioning goes on": {
			reason: "the host must not be adopted, it is being cleaned",
			seen:   running(bmov1alpha1.StateDeprovisioning, nodes.Manageable),
			want:   want{call: step.Provision{Target: nodes.TargetProvide}, after: rules.Poll},
		},
		"available is not adopted": {
			reason: "it runs nothing",
			seen:   seen(bmov1alpha1.StateAvailable, nodes.Manageable, isOn),
			want:   want{after: rules.Steady},
		},
		"inspecting starts over": {
			reason: "the result is lost",
			seen:   seen(bmov1alpha1.StateInspecting, nodes.Manageable),
			want:   want{call: step.Provision{Target: nodes.TargetInspect}, after: rules.Poll},
		},
		"a failed adoption": {
			reason: "the user has to know that nobody looks after the host",
			seen:   running(provisioned, nodes.AdoptFail, lastError("no such driver")),
			want: want{
				status: bmov1alpha1.OperationalStatusError, error: bmov1alpha1.ProvisionedRegistrationError, count: 1,
				text: "Host adoption failed: no such driver", after: rules.Retry,
			},
		},
		"a failed adoption again": {
			reason: "the time of the back-off is over",
			seen: running(provisioned, nodes.AdoptFail, lastError("no such driver"),
				failed(bmov1alpha1.ProvisionedRegistrationError, 1)),
			want: want{status: bmov1alpha1.OperationalStatusOK, count: 1, call: adopt, after: rules.Poll},
		},
		"maintenance that somebody set": {
			reason: "Ironic does not look after such a node",
			seen:   running(provisioned, nodes.Active, onNode(func(node *nodes.Node) { node.Maintenance = true })),
			want:   want{call: step.Maintenance{}},
		},
	})
}

func noNodeButOn(s *step.Seen) {
	noNode(s)
	s.Host.Status.PoweredOn = true
}

func next(all step.Seen) *step.Step {
	got := step.Next(all, rules)
	return &got
}

func TestIsClaimed(t *testing.T) {
	host := seen(bmov1alpha1.StateAvailable, "").Host
	for name, change := range map[string]func(*corev1.Secret){
		"no label":     func(secret *corev1.Secret) { secret.Labels = nil },
		"no finalizer": func(secret *corev1.Secret) { secret.Finalizers = nil },
		"no owner":     func(secret *corev1.Secret) { secret.OwnerReferences = nil },
	} {
		t.Run(name, func(t *testing.T) {
			secret := seen(bmov1alpha1.StateAvailable, "").Secret
			if !step.IsClaimed(secret, host) {
				t.Error("the Secret with everything counts as not claimed")
			}
			change(secret)
			if step.IsClaimed(secret, host) {
				t.Error("counts as claimed")
			}
		})
	}
}
