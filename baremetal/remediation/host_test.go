package remediation_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

func annotatedHost(annotations map[string]string) *bmov1alpha1.BareMetalHost {
	return &bmov1alpha1.BareMetalHost{ObjectMeta: metav1.ObjectMeta{Name: "host", Annotations: annotations}}
}

func TestPowerOffKey(t *testing.T) {
	long := strings.Repeat("worker-", 30)
	keys := map[string]bool{}
	for _, name := range []string{"worker-1", "a.b", long + "1", long + "2"} {
		key := remediation.PowerOffKey(name)
		if problems := validation.IsQualifiedName(key); len(problems) > 0 {
			t.Errorf("%s: %v", key, problems)
		}
		if !strings.HasPrefix(key, "reboot.metal3.io/metal3-remediation-") {
			t.Errorf("the release of a host does not remove %s", key)
		}
		keys[key] = true
	}
	if len(keys) != 4 {
		t.Errorf("two remediations share a key: %v", keys)
	}
	if !keys["reboot.metal3.io/metal3-remediation-worker-1"] {
		t.Errorf("a short name is in the key: %v", keys)
	}
}

func TestPower(t *testing.T) {
	const ofCAPM3 = "reboot.metal3.io/metal3-remediation-0b2f6c1e"
	host := annotatedHost(map[string]string{"reboot.metal3.io/me": "", "reboot.metal3.io": ""})
	if remediation.HasPowerOffRequest(host) {
		t.Error("a request of a user counts as a request of a remediation")
	}
	off := remediation.PowerOff(host, "machine")
	want := map[string]string{
		"reboot.metal3.io/me": "", "reboot.metal3.io": "", "reboot.metal3.io/metal3-remediation-machine": `{"mode":"hard"}`,
	}
	if diff := cmp.Diff(want, off.Annotations); diff != "" || !remediation.HasPowerOffRequest(off) {
		t.Errorf("-want +got:\n%s", diff)
	}
	off.Annotations[ofCAPM3] = `{"mode":"hard"}`
	if diff := cmp.Diff(host.Annotations, remediation.PowerOn(off).Annotations); diff != "" {
		t.Errorf("a request with the UID from before a move must be removed; -want +got:\n%s", diff)
	}
	if !remediation.HasPowerOffRequest(annotatedHost(map[string]string{ofCAPM3: ""})) {
		t.Error("a request of CAPM3 does not count")
	}
	bare := annotatedHost(nil)
	if restarted := remediation.Restart(bare); !remediation.Restarting(restarted) || remediation.HasPowerOffRequest(restarted) {
		t.Errorf("got %v", restarted.Annotations)
	}
	if bare.Annotations != nil {
		t.Error("the host of the cache was changed")
	}
}

func TestUnhealthy(t *testing.T) {
	marked := remediation.Unhealthy(annotatedHost(nil))
	if marked.Annotations["capm3.metal3.io/unhealthy"] != "capm3/UnhealthyNode" {
		t.Errorf("got %v", marked.Annotations)
	}
	if left := remediation.Healthy(marked).Annotations; len(left) != 0 {
		t.Errorf("got %v", left)
	}
	byUser := annotatedHost(map[string]string{infrav1.UnhealthyAnnotation: "fan broken"})
	if len(remediation.Healthy(byUser).Annotations) != 1 {
		t.Error("the annotation of a user was removed")
	}
}

func TestCheck(t *testing.T) {
	deleted := &metav1.Time{}
	*deleted = metav1.Unix(1, 0)
	whole := func(edits ...func(*remediation.Subject)) remediation.Subject {
		subject := remediation.Subject{
			Owner: &clusterv1.Machine{
				ObjectMeta: metav1.ObjectMeta{Name: "m"},
				Spec: clusterv1.MachineSpec{
					ClusterName: "c", InfrastructureRef: clusterv1.ContractVersionedObjectReference{Kind: "Metal3Machine", Name: "m3m"},
				},
			},
			ClusterFound: true, Machine: &infrav1.Metal3Machine{ObjectMeta: metav1.ObjectMeta{Name: "m3m"}},
			Host: annotatedHost(nil),
		}
		subject.Host.Spec.Online, subject.Host.Status.Provisioning.State = true, bmov1alpha1.StateProvisioned
		for _, edit := range edits {
			edit(&subject)
		}
		return subject
	}
	type subject = remediation.Subject
	cases := map[string]struct {
		in              subject
		blocked         bool
		reason, message string
	}{
		"Whole":   {in: whole()},
		"NoOwner": {subject{}, true, infrav1.MachineMissingReason, "metadata.ownerReferences names no Machine. Delete"},
		"NoMachine": {
			subject{OwnerName: "m"}, true, infrav1.MachineMissingReason,
			"metadata.ownerReferences names Machine m, which does not exist. Delete this Metal3Remediation",
		},
		"NoCluster": {whole(func(s *subject) { s.ClusterFound = false }), true, infrav1.MachineMissingReason, "Cluster c in spec.clusterName"},
		"Deleting": {
			whole(func(s *subject) { s.Owner.DeletionTimestamp = deleted }), false, infrav1.MachineDeletingReason, "Machine m is being deleted",
		},
		"NoMetal3Machine": {
			whole(func(s *subject) { s.Machine = nil }), true, infrav1.Metal3MachineMissingReason,
			"names Metal3Machine m3m in spec.infrastructureRef",
		},
		"NoHost": {whole(func(s *subject) { s.Host = nil }), true, infrav1.HostMissingReason, "Metal3Machine m3m has no BareMetalHost"},
		"HostDeleting": {
			whole(func(s *subject) { s.Host.DeletionTimestamp = deleted }), true, infrav1.HostMissingReason, "host is being deleted",
		},
		"HostDeletingUnderUnhealthyMachine": {
			whole(func(s *subject) { s.Host.DeletionTimestamp, s.Unhealthy = deleted, true }), false, infrav1.HostMissingReason,
			"BareMetalHost host is being deleted. After that, the owner of Machine m replaces the Machine.",
		},
		"LostHost": {
			whole(func(s *subject) { s.Host, s.LostHost = nil, "host" }), true, infrav1.HostMissingReason,
			"BareMetalHost host was deleted, and no MachineHealthCheck reports Machine m as unhealthy. Restore the host",
		},
		"Withheld": {whole(func(s *subject) { s.Withheld = "is paused" }), false, infrav1.HostWithheldReason, "BareMetalHost host is paused"},
		"NotReported": {
			whole(func(s *subject) { s.Host.Status = bmov1alpha1.BareMetalHostStatus{} }), false, infrav1.HostNotReportedReason,
			"Waiting for the Baremetal Operator to report whether BareMetalHost host is powered on",
		},
		"Offline": {whole(func(s *subject) { s.Host.Spec.Online = false }), true, infrav1.HostOfflineReason, "spec.online of BareMetalHost host is false"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := remediation.Check(tc.in)
			if got.Reason != tc.reason || got.IsBlocked() != tc.blocked || !strings.Contains(got.Message, tc.message) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestIsLost(t *testing.T) {
	type subject = remediation.Subject
	deleted := metav1.Unix(1, 0)
	cases := map[string]struct {
		reason string
		edit   func(*subject)
		want   bool
	}{
		"Lost":            {"dead hardware was removed from the inventory", func(*subject) {}, true},
		"NoMachine":       {"there is nothing to replace", func(s *subject) { s.Owner = nil }, false},
		"MachineDeleting": {"the Machine is replaced already", func(s *subject) { s.Owner.DeletionTimestamp = &deleted }, false},
		"NoCluster":       {"no controller replaces the Machine", func(s *subject) { s.ClusterFound = false }, false},
		"NoMetal3Machine": {"the host is unknown", func(s *subject) { s.Machine = nil }, false},
		"Host":            {"the host is rebooted", func(s *subject) { s.Host = annotatedHost(nil) }, false},
		"RecordedExists":  {"the consumer of the host may be restored", func(s *subject) { s.LostHost = "" }, false},
		"Healthy":         {"the pods of the Machine run", func(s *subject) { s.Unhealthy = false }, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			in := subject{
				Owner: &clusterv1.Machine{}, ClusterFound: true, Machine: &infrav1.Metal3Machine{}, LostHost: "host", Unhealthy: true,
			}
			tc.edit(&in)
			if got := remediation.IsLost(in); got != tc.want {
				t.Errorf("got %t: %s", got, tc.reason)
			}
		})
	}
}

func TestIsReplaced(t *testing.T) {
	cases := map[string]struct {
		reason string
		edit   func(*bmov1alpha1.BareMetalHost, *infrav1.Metal3Machine)
		want   bool
	}{
		"Replaced": {"a user created it for other hardware", func(*bmov1alpha1.BareMetalHost, *infrav1.Metal3Machine) {}, true},
		"Consumed": {"a consumer of another kind has it", func(host *bmov1alpha1.BareMetalHost, _ *infrav1.Metal3Machine) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{Name: "another"}
		}, false},
		"ClaimedByAnother": {"the machine never claims it", func(host *bmov1alpha1.BareMetalHost, _ *infrav1.Metal3Machine) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: "another"}
			host.Spec.Image, host.Annotations = &bmov1alpha1.Image{}, map[string]string{infrav1.ReleaseAnnotation: "{}"}
		}, true},
		"ItsOwn": {"the machine has it", func(host *bmov1alpha1.BareMetalHost, machine *infrav1.Metal3Machine) {
			host.Spec.ConsumerRef = &corev1.ObjectReference{Kind: "Metal3Machine", Name: machine.Name}
		}, false},
		"Image": {"it may run the system of the machine", func(host *bmov1alpha1.BareMetalHost, _ *infrav1.Metal3Machine) {
			host.Spec.Image = &bmov1alpha1.Image{}
		}, false},
		"DeployStep": {"it may run the system of the machine", func(host *bmov1alpha1.BareMetalHost, _ *infrav1.Metal3Machine) {
			host.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{}
		}, false},
		"Recorded": {"a machine claimed it", func(host *bmov1alpha1.BareMetalHost, _ *infrav1.Metal3Machine) {
			host.Annotations = map[string]string{infrav1.ReleaseAnnotation: "{}"}
		}, false},
		"SameAge": {"the machine may have claimed it", func(host *bmov1alpha1.BareMetalHost, machine *infrav1.Metal3Machine) {
			host.CreationTimestamp = machine.CreationTimestamp
		}, false},
		"NoProviderID": {"the machine waits for this host", func(_ *bmov1alpha1.BareMetalHost, machine *infrav1.Metal3Machine) {
			machine.Spec.ProviderID = ""
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			host, machine := &bmov1alpha1.BareMetalHost{}, &infrav1.Metal3Machine{}
			machine.CreationTimestamp, host.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
			machine.Spec.ProviderID = "metal3://n/host/m"
			tc.edit(host, machine)
			if got := remediation.IsReplaced(host, machine); got != tc.want {
				t.Errorf("got %t: %s", got, tc.reason)
			}
		})
	}
}

func TestWithoutOrphans(t *testing.T) {
	const machine = "worker-1"
	of := func(name, uid string) map[string]string {
		return map[string]string{
			remediation.PowerOffKey(name): `{"mode":"hard"}`, infrav1.RemediationRebootPrefix + uid: "",
			"reboot.metal3.io/me": "", "reboot.metal3.io": "",
		}
	}
	request := func(name, uid, owner string) infrav1.Metal3Remediation {
		return infrav1.Metal3Remediation{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID(uid),
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: clusterv1.GroupVersion.String(), Kind: "Machine", Name: owner,
			}},
		}}
	}
	foreign := map[string]string{"reboot.metal3.io/me": "", "reboot.metal3.io": ""}
	moving := of("gone", "1")
	moving[infrav1.DeleteForMoveAnnotation] = ""
	cases := map[string]struct {
		reason       string
		annotations  map[string]string
		remediations []infrav1.Metal3Remediation
		machine      string
		want         map[string]string
	}{
		"NoRemediation": {
			reason:      "no other controller would power the host on; requests of users stay",
			annotations: of("gone", "1"), machine: machine, want: foreign,
		},
		"RemediationsOfOtherMachines": {
			reason:      "they remove only their own requests",
			annotations: of("gone", "1"), machine: machine,
			remediations: []infrav1.Metal3Remediation{request("worker-2", "2", "worker-2")}, want: foreign,
		},
		"RemediationOfThatNameAndUID": {
			reason:       "both wait for the power, even if the Machine on the host is not known",
			annotations:  of("worker-2", "2"),
			remediations: []infrav1.Metal3Remediation{request("worker-2", "2", "worker-2")}, want: of("worker-2", "2"),
		},
		"RemediationOfTheMachine": {
			reason:      "a move changed the UID in the request of CAPM3",
			annotations: of("gone", "before-the-move"), machine: machine,
			remediations: []infrav1.Metal3Remediation{request(machine, "3", machine)}, want: of("gone", "before-the-move"),
		},
		"NoMachine": {
			reason:       "a remediation without an owner is not that of a host without a Machine",
			annotations:  of("gone", "1"),
			remediations: []infrav1.Metal3Remediation{{ObjectMeta: metav1.ObjectMeta{Name: "by-hand", UID: "4"}}},
			want:         foreign,
		},
		"HostThatAMoveDeletes": {
			reason:      "a write could stop the deletion",
			annotations: moving, want: moving,
		},
		"NothingLeft": {reason: "most hosts are clean and must not be written", annotations: foreign, want: foreign},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			host := annotatedHost(maps.Clone(tc.annotations))
			clean, dirty := remediation.WithoutOrphans(host, tc.remediations, tc.machine)
			if diff := cmp.Diff(tc.want, clean.Annotations); diff != "" {
				t.Errorf("%s: -want, +got:\n%s", tc.reason, diff)
			}
			if changed := len(tc.want) != len(tc.annotations); dirty != changed {
				t.Errorf("%s: dirty is %t, want %t", tc.reason, dirty, changed)
			}
			if diff := cmp.Diff(tc.annotations, host.Annotations); diff != "" {
				t.Errorf("the host itself was changed:\n%s", diff)
			}
		})
	}
}

func TestIsForgotten(t *testing.T) {
	deleted := metav1.Unix(1, 0)
	cases := map[string]struct {
		edit func(request *infrav1.Metal3Remediation, owner *clusterv1.Machine)
		want bool
	}{
		"NoReport": {func(*infrav1.Metal3Remediation, *clusterv1.Machine) {}, true},
		"ByUser":   {func(request *infrav1.Metal3Remediation, _ *clusterv1.Machine) { request.Annotations = nil }, false},
		"Deleting": {func(_ *infrav1.Metal3Remediation, owner *clusterv1.Machine) { owner.DeletionTimestamp = &deleted }, false},
		"Unhealthy": {func(_ *infrav1.Metal3Remediation, owner *clusterv1.Machine) {
			owner.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionFalse}}
		}, false},
		"HealthyBefore": {func(_ *infrav1.Metal3Remediation, owner *clusterv1.Machine) {
			owner.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0),
			}}
		}, true},
		"HealthyAgain": {func(_ *infrav1.Metal3Remediation, owner *clusterv1.Machine) {
			owner.Status.Conditions = []metav1.Condition{{
				Type: clusterv1.MachineHealthCheckSucceededCondition, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Unix(3, 0),
			}}
		}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request, owner := &infrav1.Metal3Remediation{}, &clusterv1.Machine{}
			request.CreationTimestamp = metav1.Unix(2, 0)
			request.Annotations = map[string]string{clusterv1.TemplateClonedFromNameAnnotation: "template"}
			tc.edit(request, owner)
			if got := remediation.IsForgotten(request, owner); got != tc.want {
				t.Errorf("got %t", got)
			}
		})
	}
	if remediation.IsForgotten(&infrav1.Metal3Remediation{}, nil) {
		t.Error("no Machine has lost a report")
	}
}

func TestRanBefore(t *testing.T) {
	try := metav1.Unix(1_700_000_000, 0)
	earlier, later := metav1.NewTime(try.Add(-time.Minute)), metav1.NewTime(try.Add(time.Minute))
	for name, tc := range map[string]struct {
		reason string
		state  bmov1alpha1.ProvisioningState
		end    metav1.Time
		want   bool
	}{
		"Provisioned":  {"BMO has not recorded when", bmov1alpha1.StateProvisioned, metav1.Time{}, true},
		"Earlier":      {"the system has run", bmov1alpha1.StateProvisioned, earlier, true},
		"Later":        {"the system boots for the first time", bmov1alpha1.StateProvisioned, later, false},
		"Provisioning": {"BMO removes the request", bmov1alpha1.StateProvisioning, metav1.Time{}, false},
		"Available":    {"BMO ignores the request", bmov1alpha1.StateAvailable, metav1.Time{}, false},
		"External":     {"BMO only manages its power", bmov1alpha1.StateExternallyProvisioned, metav1.Time{}, true},
	} {
		host := build.Host("host", build.State(tc.state))
		host.Status.OperationHistory.Provision.End = tc.end
		if got := remediation.RanBefore(host, &try); got != tc.want {
			t.Errorf("%s: %s: got %t", name, tc.reason, got)
		}
	}
}
