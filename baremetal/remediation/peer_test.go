package remediation_test

import (
	"testing"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/remediation"
)

func TestIsDown(t *testing.T) {
	now := time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)
	type peer = remediation.Peer
	on := func(edits ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		host := annotatedHost(map[string]string{})
		host.Spec.Online, host.Status.PoweredOn = true, true
		host.Status.Provisioning.State = bmov1alpha1.StateProvisioned
		for _, edit := range edits {
			edit(host)
		}
		return host
	}
	asked := func(key string) func(*bmov1alpha1.BareMetalHost) {
		return func(host *bmov1alpha1.BareMetalHost) { host.Annotations[key] = "" }
	}
	off := func(host *bmov1alpha1.BareMetalHost) { host.Status.PoweredOn = false }
	in := func(phase infrav1.RemediationPhase, ago time.Duration) []*infrav1.Metal3Remediation {
		request := &infrav1.Metal3Remediation{Spec: infrav1.Metal3RemediationSpec{
			Strategy: &infrav1.RemediationStrategy{Type: infrav1.RebootRemediation, TimeoutSeconds: ptr.To[int32](300)},
		}}
		record := remediation.Record{Phase: phase, LastRemediated: &metav1.Time{Time: now.Add(-ago)}}
		if err := record.Store(request); err != nil {
			t.Fatal(err)
		}
		return []*infrav1.Metal3Remediation{{}, request}
	}
	cases := map[string]struct {
		reason string
		in     peer
		want   bool
	}{
		"healthy":           {"no request exists", peer{Host: on()}, false},
		"no host":           {"only the condition of the Node is known", peer{}, false},
		"permitted":         {"another worker decided to reboot the host", peer{Host: on(), Permitted: true}, true},
		"permitted, hidden": {"the cache has neither host nor remediation", peer{Permitted: true}, true},
		"power-off request": {"BMO may power the host off at any time", peer{Host: on(asked(remediation.PowerOffKey("m")))}, true},
		"power-off request of a user": {
			"any suffix keeps a host off", peer{Host: on(asked("reboot.metal3.io/maintenance"))}, true,
		},
		"restarting":             {"BMO restarts the host", peer{Host: on(asked("reboot.metal3.io"))}, true},
		"a similar key":          {"BMO ignores the annotation", peer{Host: on(asked("reboot.metal3.iox"))}, false},
		"switched off by a user": {"BMO powers the host off", peer{Host: on(func(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = false })}, true},
		"powered off":            {"the Node is Ready for 50 seconds", peer{Host: on(off)}, true},
		"deprovisioning": {
			"BMO will power the host off",
			peer{Host: on(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning })}, true,
		},
		"no state": {
			"after a move, poweredOn is false until BMO reports",
			peer{Host: on(off, func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = "" })}, false,
		},
		"off when it was paused":   {"BMO does not update the status", peer{Host: on(off, asked(bmov1alpha1.PausedAnnotation))}, false},
		"off when it was detached": {"BMO does not update the status", peer{Host: on(off, asked(bmov1alpha1.DetachedAnnotation))}, false},
		"not started":              {"the reboot is not decided", peer{Host: on(), Remediations: in("", 0)}, false},
		"running":                  {"the host may power off soon", peer{Host: on(), Remediations: in(infrav1.RemediationRunning, 0)}, true},
		"running for long":         {"the host may still be off", peer{Host: on(), Remediations: in(infrav1.RemediationRunning, time.Hour)}, true},
		"waiting":                  {"the Node boots", peer{Host: on(), Remediations: in(infrav1.RemediationWaiting, 299*time.Second)}, true},
		"waiting for long":         {"the condition of the Node is up to date", peer{Host: on(), Remediations: in(infrav1.RemediationWaiting, 300*time.Second)}, false},
		"waiting without a host":   {"the remediation is sufficient", peer{Remediations: in(infrav1.RemediationWaiting, 0)}, true},
		"exhausted":                {"the host is not rebooted again", peer{Host: on(), Remediations: in(infrav1.RemediationDeletingMachine, 0)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := remediation.IsDown(tc.in, now); got != tc.want {
				t.Errorf("got %t: %s", got, tc.reason)
			}
		})
	}
}
