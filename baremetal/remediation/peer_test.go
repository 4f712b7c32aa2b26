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
		"healthy":           {"nothing happens to it", peer{Host: on()}, false},
		"no host":           {"the condition of the Node is all that is known", peer{}, false},
		"permitted":         {"another worker decided to reboot it", peer{Host: on(), Permitted: true}, true},
		"permitted, hidden": {"the cache shows neither", peer{Permitted: true}, true},
		"asked off":         {"BMO may power it off at any time", peer{Host: on(asked(remediation.PowerOffKey("m")))}, true},
		"asked off by a person": {
			"any suffix keeps a host off", peer{Host: on(asked("reboot.metal3.io/maintenance"))}, true,
		},
		"restarting":               {"BMO restarts it", peer{Host: on(asked("reboot.metal3.io"))}, true},
		"a similar key":            {"BMO does not read it", peer{Host: on(asked("reboot.metal3.iox"))}, false},
		"switched off by a person": {"BMO powers it off", peer{Host: on(func(h *bmov1alpha1.BareMetalHost) { h.Spec.Online = false })}, true},
		"powered off":              {"the Node is Ready for 50 seconds", peer{Host: on(off)}, true},
		"deprovisioning": {
			"BMO is about to power it off",
			peer{Host: on(func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning })}, true,
		},
		"no state": {
			"after a move, poweredOn is false until BMO reports",
			peer{Host: on(off, func(h *bmov1alpha1.BareMetalHost) { h.Status.Provisioning.State = "" })}, false,
		},
		"off when it was paused":   {"BMO does not update it", peer{Host: on(off, asked(bmov1alpha1.PausedAnnotation))}, false},
		"off when it was detached": {"BMO does not update it", peer{Host: on(off, asked(bmov1alpha1.DetachedAnnotation))}, false},
		"not started":              {"its reboot is not decided", peer{Host: on(), Remediations: in("", 0)}, false},
		"running":                  {"the power-off may be on its way", peer{Host: on(), Remediations: in(infrav1.RemediationRunning, 0)}, true},
		"running for long":         {"the host may be off for long", peer{Host: on(), Remediations: in(infrav1.RemediationRunning, time.Hour)}, true},
		"waiting":                  {"the Node boots", peer{Host: on(), Remediations: in(infrav1.RemediationWaiting, 299*time.Second)}, true},
		"waiting for long":         {"its condition is up to date", peer{Host: on(), Remediations: in(infrav1.RemediationWaiting, 300*time.Second)}, false},
		"waiting without a host":   {"the remediation tells", peer{Remediations: in(infrav1.RemediationWaiting, 0)}, true},
		"exhausted":                {"it is not rebooted again", peer{Host: on(), Remediations: in(infrav1.RemediationDeletingMachine, 0)}, false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := remediation.IsDown(tc.in, now); got != tc.want {
				t.Errorf("got %t: %s", got, tc.reason)
			}
		})
	}
}
