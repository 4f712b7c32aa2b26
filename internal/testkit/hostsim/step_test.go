package hostsim

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

type (
	host  = bmov1alpha1.BareMetalHost
	state = bmov1alpha1.ProvisioningState
)

// outcome is the state of a host without a next step.
type outcome struct {
	States    []state
	PoweredOn bool
	Image     string
	Released  bool
}

// tooMany is the limit of the steps of a test.
const tooMany = 20

func TestNext(t *testing.T) {
	now := metav1.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	cases := map[string]struct {
		reason string
		host   *host
		want   outcome
	}{
		"New": {
			"a new host is registered, inspected and prepared",
			build.Host("host"),
			outcome{States: []state{"registering", "inspecting", "preparing", "available"}},
		},
		"NewWithoutController": {
			"a host without a BMC is not registered",
			edit(build.Host("host"), func(h *host) { h.Spec.BMC = bmov1alpha1.BMCDetails{} }),
			outcome{States: []state{"unmanaged"}},
		},
		"NewUninspected": {
			"inspection can be switched off",
			edit(build.Host("host"), func(h *host) { h.Spec.InspectionMode = bmov1alpha1.InspectionModeDisabled }),
			outcome{States: []state{"registering", "preparing", "available"}},
		},
		"NewExternallyProvisioned": {
			"only the power of an externally provisioned host is managed",
			edit(build.Host("host"), func(h *host) { h.Spec.ExternallyProvisioned, h.Spec.Online = true, true }),
			outcome{States: []state{"registering", "externally provisioned"}, PoweredOn: true},
		},
		"AvailableOffline": {
			"an image is not written to a host with online false",
			edit(build.Host("host", build.Available()), func(h *host) {
				h.Spec.Image = &bmov1alpha1.Image{URL: "http://a"}
			}),
			outcome{},
		},
		"Claimed": {
			"a host with an image and online true is provisioned",
			edit(build.Host("host", build.Available()), func(h *host) {
				h.Spec.Image, h.Spec.Online = &bmov1alpha1.Image{URL: "http://a"}, true
			}),
			outcome{States: []state{"provisioning", "provisioned"}, PoweredOn: true, Image: "http://a"},
		},
		"ClaimedForCustomDeploy": {
			"a host with a custom deploy step is provisioned",
			edit(build.Host("host", build.Available()), func(h *host) {
				h.Spec.CustomDeploy, h.Spec.Online = &bmov1alpha1.CustomDeploy{Method: "install"}, true
			}),
			outcome{States: []state{"provisioning", "provisioned"}, PoweredOn: true},
		},
		"Released": {
			"a host without its image is wiped",
			edit(build.Host("host", build.Provisioned()), func(h *host) {
				h.Spec.Image, h.Spec.Online = nil, false
			}),
			outcome{States: []state{"deprovisioning", "available"}},
		},
		"ReleasedWhileProvisioning": {
			"the image may be cleared early",
			build.Host("host", build.State(bmov1alpha1.StateProvisioning)),
			outcome{States: []state{"deprovisioning", "available"}},
		},
		"OtherImage": {
			"another image is provisioned after deprovisioning",
			edit(build.Host("host", build.Provisioned()), func(h *host) { h.Spec.Image.URL = "http://b" }),
			outcome{
				States:    []state{"deprovisioning", "available", "provisioning", "provisioned"},
				PoweredOn: true, Image: "http://b",
			},
		},
		"SwitchedOff": {
			"power follows the specification",
			edit(build.Host("host", build.Provisioned()), func(h *host) { h.Spec.Online = false }),
			outcome{Image: build.ImageURL},
		},
		"RebootWithName": {
			"power stays off until the owner removes the annotation",
			build.Host("host", build.Provisioned(), build.Annotations(map[string]string{"reboot.metal3.io/me": ""})),
			outcome{Image: build.ImageURL},
		},
		"RebootOnce": {
			"power returns without a named request",
			build.Host("host", build.Provisioned(), build.Annotations(map[string]string{"reboot.metal3.io": ""})),
			outcome{PoweredOn: true, Image: build.ImageURL},
		},
		"Paused": {
			"a paused host does not change",
			build.Host("host", build.Paused("anybody")),
			outcome{},
		},
		"Failed": {
			"an error stops a host",
			build.Host("host", build.State(bmov1alpha1.StateInspecting), build.Error("no disk")),
			outcome{},
		},
		"FailedAndReleased": {
			"a host with an error can be released",
			edit(build.Host("host", build.Provisioned(), build.Error("no power")), func(h *host) {
				h.Spec.Image, h.Spec.Online = nil, false
			}),
			outcome{States: []state{"deprovisioning", "available"}},
		},
		"FailedWhileProvisioning": {
			"a failed host stays in its state",
			edit(build.Host("host", build.State(bmov1alpha1.StateProvisioning), build.Error("no image")), func(h *host) {
				h.Spec.Image = &bmov1alpha1.Image{URL: "http://a"}
			}),
			outcome{},
		},
		"Detached": {
			"a detached host keeps its power state",
			edit(build.Host("host", build.Provisioned()), func(h *host) {
				h.Annotations = map[string]string{bmov1alpha1.DetachedAnnotation: ""}
				h.Spec.Online = false
			}),
			outcome{PoweredOn: true, Image: build.ImageURL},
		},
		"Moved": {
			"the status of the source cluster is restored",
			edit(build.Host("host", build.Annotations(map[string]string{
				bmov1alpha1.StatusAnnotation: `{"provisioning": {"state": "provisioned", "ID": "1",
					"image": {"url": "http://a"}}, "poweredOn": true}`,
			})), func(h *host) {
				h.Spec.Image, h.Spec.Online = &bmov1alpha1.Image{URL: "http://a"}, true
			}),
			outcome{States: []state{"provisioned"}, PoweredOn: true, Image: "http://a"},
		},
		"MovedWithStatus": {
			"an existing status has precedence over the annotation",
			build.Host("host", build.Available(), build.Annotations(map[string]string{bmov1alpha1.StatusAnnotation: `{}`})),
			outcome{},
		},
		"DeletedProvisioned": {
			"a provisioned host is deprovisioned before its deletion",
			edit(build.Host("host", build.Provisioned()), deleted),
			outcome{States: []state{"deprovisioning", "powering off before delete", "deleting"}, Released: true},
		},
		"DeletedFree": {
			"an available host is powered off before its deletion",
			edit(build.Host("host", build.Available()), deleted),
			outcome{States: []state{"powering off before delete", "deleting"}, Released: true},
		},
		"DeletedNew": {
			"a host without a status is deleted at once",
			edit(build.Host("host"), deleted),
			outcome{States: []state{"deleting"}, Released: true},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := run(t, tc.host, now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// run performs steps until there are none left.
func run(t *testing.T, host *host, now metav1.Time) outcome {
	t.Helper()
	var got outcome
	for range tooMany {
		state := host.Status.Provisioning.State
		step, err := next(host, Delays{})
		if err != nil {
			t.Fatal(err)
		}
		if step.isIdle() {
			got.PoweredOn = host.Status.PoweredOn
			got.Image = host.Status.Provisioning.Image.URL
			held := slices.Contains(host.Finalizers, bmov1alpha1.BareMetalHostFinalizer)
			got.Released = !host.DeletionTimestamp.IsZero() && !held
			return got
		}
		if step.meta != nil {
			step.meta(host, now)
			continue
		}
		step.status(host, now)
		host.Status.LastUpdated = &now
		if host.Status.Provisioning.State != state {
			got.States = append(got.States, host.Status.Provisioning.State)
		}
	}
	t.Fatalf("no end after %d steps; states so far: %v", tooMany, got.States)
	return got
}

func TestNextRejectsBrokenAnnotation(t *testing.T) {
	host := build.Host("host", build.Annotations(map[string]string{bmov1alpha1.StatusAnnotation: "{"}))
	if _, err := next(host, Delays{}); err == nil {
		t.Error("a broken status annotation is accepted")
	}
}

func TestDelays(t *testing.T) {
	delays := Delays{Register: 1, Inspect: 2, Prepare: 3, Provision: 4, Deprovision: 5, Power: 6}
	imaged := func(h *host) {
		h.Spec.Image, h.Spec.Online = &bmov1alpha1.Image{URL: "http://a"}, true
	}
	cases := map[string]struct {
		reason string
		host   *host
		want   time.Duration
	}{
		"None":        {"the first step has no delay", build.Host("host"), 0},
		"Register":    {"registering", build.Host("host", build.State(bmov1alpha1.StateRegistering)), 1},
		"Inspect":     {"inspecting", build.Host("host", build.State(bmov1alpha1.StateInspecting)), 2},
		"Prepare":     {"preparing", build.Host("host", build.State(bmov1alpha1.StatePreparing)), 3},
		"Provision":   {"provisioning", edit(build.Host("host", build.State(bmov1alpha1.StateProvisioning)), imaged), 4},
		"Deprovision": {"deprovisioning", build.Host("host", build.State(bmov1alpha1.StateDeprovisioning)), 5},
		"Power":       {"power", edit(build.Host("host", build.Available()), func(h *host) { h.Spec.Online = true }), 6},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
			step, err := next(tc.host, delays)
			if err != nil {
				t.Fatal(err)
			}
			if step.after != tc.want {
				t.Errorf("%s takes %d, want %d", tc.reason, step.after, tc.want)
			}
		})
	}
}

// TestNextIsPure requires that the decision does not change its input.
func TestNextIsPure(t *testing.T) {
	host := build.Host("host", build.Provisioned())
	host.Spec.UserData = &corev1.SecretReference{Name: "user-data"}
	before := host.DeepCopy()
	if _, err := next(host, Delays{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, host); diff != "" {
		t.Errorf("the host changed (-before +after):\n%s", diff)
	}
}

func edit(host *host, change func(*host)) *host {
	change(host)
	return host
}

func deleted(host *host) {
	when := metav1.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	host.DeletionTimestamp = &when
	host.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer}
}

// TestLeft tests that the time of a host in a state counts only for this state.
func TestLeft(t *testing.T) {
	now := time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)
	passive := clocktesting.NewFakePassiveClock(now)
	simulator := &simulator{clock: passive}
	host := build.Host("host", build.State(bmov1alpha1.StateProvisioning))
	check := func(reason string, want time.Duration) {
		t.Helper()
		if got := simulator.left(host, 10*time.Second); got != want {
			t.Errorf("%s: %s left, want %s", reason, got, want)
		}
	}
	check("at the beginning", 10*time.Second)
	passive.SetTime(now.Add(4 * time.Second))
	check("later", 6*time.Second)
	host.Status.Provisioning.State = bmov1alpha1.StateDeprovisioning
	check("in another state", 10*time.Second)
	host.UID = "another"
	passive.SetTime(now.Add(5 * time.Second))
	check("another host of the same name", 10*time.Second)
	if got := simulator.left(host, 0); got != 0 {
		t.Errorf("without a delay: %s left, want none", got)
	}
}
