package host_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

const remediationReboot = "reboot.metal3.io/metal3-remediation-1234"

// allStates returns the states of BMO and an unknown one. The value is true for a settled host, and nil if that depends
// on its power.
func allStates() map[bmov1alpha1.ProvisioningState]*bool {
	yes, no := ptrTo(true), ptrTo(false)
	return map[bmov1alpha1.ProvisioningState]*bool{
		bmov1alpha1.StateNone:                    yes,
		bmov1alpha1.StateUnmanaged:               yes,
		bmov1alpha1.StateRegistering:             yes,
		bmov1alpha1.StateMatchProfile:            yes,
		bmov1alpha1.StateInspecting:              yes,
		bmov1alpha1.StateReady:                   yes,
		bmov1alpha1.StateAvailable:               yes,
		bmov1alpha1.StateExternallyProvisioned:   nil,
		bmov1alpha1.StatePreparing:               no,
		bmov1alpha1.StateProvisioning:            no,
		bmov1alpha1.StateProvisioned:             no,
		bmov1alpha1.StateDeprovisioning:          no,
		bmov1alpha1.StatePoweringOffBeforeDelete: no,
		bmov1alpha1.StateDeleting:                no,
		"unknown":                                no,
	}
}

// releaseCase is one cell of the matrix.
type releaseCase struct {
	state           bmov1alpha1.ProvisioningState
	cleaning        bmov1alpha1.AutomatedCleaningMode
	disablePowerOff bool
	fastTrack       bool
	reserve         bool
	foundOnline     bool
	poweredOn       bool
}

// releaseMatrix returns every combination by its name.
func releaseMatrix() map[string]releaseCase {
	matrix := map[string]releaseCase{}
	cleanings := []bmov1alpha1.AutomatedCleaningMode{
		"", bmov1alpha1.CleaningModeMetadata, bmov1alpha1.CleaningModeDisabled,
	}
	for is := range allStates() {
		for _, cleaning := range cleanings {
			for bits := range 1 << 5 {
				bit := func(n int) bool { return bits&(1<<n) != 0 }
				tc := releaseCase{is, cleaning, bit(0), bit(1), bit(2), bit(3), bit(4)}
				if tc.poweredOn && allStates()[is] != nil {
					// Only a nil state depends on the power.
					continue
				}
				matrix[fmt.Sprintf("%+v", tc)] = tc
			}
		}
	}
	return matrix
}

// onlineMeanwhile implements the table in the comment of PlanRelease.
func (c releaseCase) onlineMeanwhile() bool {
	switch {
	case c.disablePowerOff:
		return true
	case c.fastTrack && c.cleaned():
		return true
	default:
		return false
	}
}

// onlineAfterwards returns the expected spec.online after the last step.
func (c releaseCase) onlineAfterwards() bool {
	if c.reserve || c.disablePowerOff || !c.cleaned() {
		return c.onlineMeanwhile()
	}
	return c.foundOnline
}

func (c releaseCase) settled() bool {
	if settled := allStates()[c.state]; settled != nil {
		return *settled
	}
	return !c.poweredOn || c.disablePowerOff
}

func (c releaseCase) cleaned() bool {
	return c.cleaning != bmov1alpha1.CleaningModeDisabled && c.state != bmov1alpha1.StateExternallyProvisioned
}

// keepsRecord returns true if BMO still registers or inspects the host.
func (c releaseCase) keepsRecord() bool {
	return c.state == bmov1alpha1.StateRegistering || c.state == bmov1alpha1.StateMatchProfile ||
		c.state == bmov1alpha1.StateInspecting
}

// original returns the host before its claim.
func (c releaseCase) original() *bmov1alpha1.BareMetalHost {
	return edit(available("host-0"), labelled("rack", "a"), func(h *bmov1alpha1.BareMetalHost) {
		h.Spec.Online = c.foundOnline
		h.Spec.DisablePowerOff = c.disablePowerOff
		h.Spec.UserData = secret("of-the-administrator")
	})
}

func (c releaseCase) release() host.Release {
	release := host.Release{Machine: machineName, Namespace: "metal3", FastTrack: c.fastTrack}
	if c.reserve {
		release.Reserve, release.Cluster = owner, clusterName
	}
	return release
}

// in sets the state of the case on a host.
func (c releaseCase) in(h *bmov1alpha1.BareMetalHost) *bmov1alpha1.BareMetalHost {
	h = h.DeepCopy()
	h.Status.Provisioning.State, h.Status.PoweredOn = c.state, c.poweredOn
	return h
}

func TestPlanReleaseMatrix(t *testing.T) {
	for name, tc := range releaseMatrix() {
		t.Run(name, func(t *testing.T) {
			held := tc.in(host.Desired(tc.original(), claim(provisioning, func(c *host.Claim) {
				c.CleaningMode = string(tc.cleaning)
			})))

			waiting := outcome.Waiting(infrav1.HostDeprovisioningReason,
				"Waiting for BareMetalHost host-0 to be deprovisioned (state: "+stateText(tc.state)+")")
			deprovisioning := edit(held.DeepCopy(), func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.Image = nil
				h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = secret("of-the-administrator"), nil, nil
				h.Spec.Online = tc.onlineMeanwhile()
			})
			checkStep(t, "provisioned", held, tc.release(), host.ReleaseStep{Write: deprovisioning, Outcome: waiting})

			if !tc.settled() {
				checkStep(t, "not settled", deprovisioning, tc.release(), host.ReleaseStep{Outcome: waiting})
				return
			}
			released := tc.in(tc.original())
			released.Spec.Online = tc.onlineAfterwards()
			if tc.reserve || tc.keepsRecord() {
				released.Spec.Online = tc.onlineMeanwhile()
				released.Spec.AutomatedCleaningMode = tc.cleaning
				edit(released, note(infrav1.ReleaseAnnotation, held.Annotations[infrav1.ReleaseAnnotation]))
			}
			if tc.reserve {
				edit(released, reserved(owner))
			}
			checkStep(t, "settled", deprovisioning, tc.release(), host.ReleaseStep{Write: released})
			checkStep(t, "released", released, tc.release(), host.ReleaseStep{})
		})
	}
}

// TestPlanReleaseOfAnUnusedHost releases claimed hosts that never got an image. The machine changed only their cleaning
// mode. Their power stays, except for states in which BMO may still deprovision an earlier system, and for a host of
// fast track that may have been on only for a cleaning.
func TestPlanReleaseOfAnUnusedHost(t *testing.T) {
	for name, tc := range releaseMatrix() {
		if tc.state != bmov1alpha1.StateAvailable && tc.state != bmov1alpha1.StateReady || tc.fastTrack && !tc.cleaned() {
			continue
		}
		t.Run(name, func(t *testing.T) {
			held := tc.in(host.Desired(tc.original(), claim(func(c *host.Claim) { c.CleaningMode = string(tc.cleaning) })))
			want := tc.in(tc.original())
			if tc.reserve {
				want.Spec.AutomatedCleaningMode = tc.cleaning
				edit(want, reserved(owner), note(infrav1.ReleaseAnnotation, held.Annotations[infrav1.ReleaseAnnotation]))
			}
			checkStep(t, "never imaged", held, tc.release(), host.ReleaseStep{Write: want})
			held.Spec.UserData = secret("other")
			restored := held.DeepCopy()
			restored.Spec.UserData = secret("of-the-administrator")
			checkStep(t, "with other data", held, tc.release(), host.ReleaseStep{
				Write: restored, Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: "+stateText(tc.state)+")"),
			})
		})
	}
}

// TestPlanReleaseAfterMove checks a host that has moved and whose status BMO has not restored: its Node still runs,
// with the addresses that the machine would release.
func TestPlanReleaseAfterMove(t *testing.T) {
	tc := releaseCase{state: bmov1alpha1.StateNone}
	arrived := edit(tc.in(host.Desired(tc.original(), claim(provisioning))),
		note(bmov1alpha1.StatusAnnotation, `{"provisioning":{"state":"provisioned"}}`))
	step := host.PlanRelease(arrived, tc.release())
	if step.Write == nil || step.Outcome.IsDone() {
		t.Fatalf("the first step removes the image: got %+v", step)
	}
	waiting := outcome.Waiting(infrav1.HostDeprovisioningReason,
		"Waiting for BareMetalHost host-0 to be deprovisioned (state: "+stateText(tc.state)+")")
	checkStep(t, "before BMO has restored the status", step.Write, tc.release(), host.ReleaseStep{Outcome: waiting})
	delete(step.Write.Annotations, bmov1alpha1.StatusAnnotation)
	if restored := host.PlanRelease(step.Write, tc.release()); restored.Write == nil {
		t.Errorf("got %+v", restored)
	}
}

func checkStep(t *testing.T, when string, h *bmov1alpha1.BareMetalHost, release host.Release, want host.ReleaseStep) {
	t.Helper()
	before := h.DeepCopy()
	got := host.PlanRelease(h, release)
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(outcome.Outcome{})); diff != "" {
		t.Errorf("%s: -want +got:\n%s", when, diff)
	}
	if diff := cmp.Diff(before, h); diff != "" {
		t.Errorf("%s: the given host was changed: -before +after:\n%s", when, diff)
	}
}

func stateText(is bmov1alpha1.ProvisioningState) string {
	if is == "" {
		return "not registered yet"
	}
	return string(is)
}

func withoutRecord(h *bmov1alpha1.BareMetalHost) { delete(h.Annotations, infrav1.ReleaseAnnotation) }

// data sets the Secrets of a host. An empty name sets none.
func data(userData, metaData, networkData string) func(*bmov1alpha1.BareMetalHost) {
	named := func(name string) *corev1.SecretReference {
		if name == "" {
			return nil
		}
		return secret(name)
	}
	return func(h *bmov1alpha1.BareMetalHost) {
		h.Spec.UserData, h.Spec.MetaData, h.Spec.NetworkData = named(userData), named(metaData), named(networkData)
	}
}

func TestPlanRelease(t *testing.T) {
	release := host.Release{Machine: machineName, Namespace: "metal3"}
	reserve := host.Release{Machine: machineName, Namespace: "metal3", Reserve: owner, Cluster: clusterName}
	disabled := host.Release{
		Machine: machineName, Namespace: "metal3", CleaningMode: infrav1.CleaningModeDisabled, FastTrack: true,
	}
	free := func(changes ...func(*bmov1alpha1.BareMetalHost)) *bmov1alpha1.BareMetalHost {
		return edit(available("host-0"), changes...)
	}
	ownPause := note(bmov1alpha1.PausedAnnotation, infrav1.HostPausedByProvider)
	cleaning := func(mode bmov1alpha1.AutomatedCleaningMode) func(*bmov1alpha1.BareMetalHost) {
		return func(h *bmov1alpha1.BareMetalHost) { h.Spec.AutomatedCleaningMode = mode }
	}
	finalizer := func(h *bmov1alpha1.BareMetalHost) { h.Finalizers = []string{bmov1alpha1.BareMetalHostFinalizer} }
	cleanedBefore := note(infrav1.ReleaseAnnotation, `{"online":true,"automatedCleaningMode":"metadata"}`)
	withoutLabel := func(h *bmov1alpha1.BareMetalHost) { delete(h.Labels, clusterv1.ClusterNameLabel) }
	waiting := func(reason, message string) host.ReleaseStep {
		return host.ReleaseStep{Outcome: outcome.Waiting(reason, message)}
	}
	cases := map[string]struct {
		reason  string
		host    *bmov1alpha1.BareMetalHost
		release host.Release
		want    host.ReleaseStep
	}{
		"GoneHost": {
			reason:  "there is no host to release",
			release: release,
		},
		"HostOfAnotherMachine": {
			reason:  "the consumer keeps the host",
			host:    claimed(running, consumer(machineRef("other"))),
			release: release,
		},
		"HostOfTheSameNameInAnotherNamespace": {
			reason:  "a machine of another namespace is another consumer",
			host:    claimed(running),
			release: host.Release{Machine: machineName, Namespace: "other"},
		},
		"HeldHost": {
			reason: "a pause by the provider outlasts the machine: another Ironic may answer",
			host:   claimed(running, ownPause, state(bmov1alpha1.StateProvisioned)),
			release: host.Release{
				Machine: machineName, Namespace: "metal3", Held: "BareMetalHost host-0 stays paused: wait",
			},
			want: waiting(infrav1.HostHeldReason, "BareMetalHost host-0 stays paused: wait"),
		},
		"HeldHostOfAnotherMachine": {
			reason:  "it is not the host of the machine",
			host:    claimed(running, ownPause, consumer(machineRef("other"))),
			release: host.Release{Machine: machineName, Namespace: "metal3", Held: "wait"},
		},
		"FreeHost": {
			reason:  "the caller repeats the release after its last write",
			host:    free(),
			release: release,
		},
		"MalformedRecord": {
			reason:  "the original values are unknown, so the power stays",
			host:    claimed(note(infrav1.ReleaseAnnotation, "{")),
			release: release,
			want:    host.ReleaseStep{Write: free()},
		},
		"NoRecord": {
			reason: "CAPM3 claimed the host without a record",
			host: claimed(func(h *bmov1alpha1.BareMetalHost) {
				delete(h.Annotations, infrav1.ReleaseAnnotation)
				h.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeMetadata
			}),
			release: release,
			want: host.ReleaseStep{Write: free(func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.AutomatedCleaningMode = bmov1alpha1.CleaningModeMetadata
			})},
		},
		"DataWithoutRecord": {
			reason: "CAPM3 claimed the host: the release removes only the Secrets of the machine",
			host: claimed(withoutRecord, running, data("bootstrap", "of-machine", "of-administrator"),
				state(bmov1alpha1.StateProvisioned)),
			release: host.Release{Machine: machineName, Namespace: "metal3", Secrets: []string{"of-machine"}},
			want: host.ReleaseStep{
				Write: claimed(withoutRecord, data("", "", "of-administrator"), state(bmov1alpha1.StateProvisioned)),
				Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: provisioned)"),
			},
		},
		"DataWithoutRecordBeforeItsImage": {
			reason:  "CAPM3 claimed the host and set no image yet",
			host:    claimed(withoutRecord, data("of-administrator", "", "of-administrator")),
			release: host.Release{Machine: machineName, Namespace: "metal3", Secrets: []string{"of-machine"}},
			want:    host.ReleaseStep{Write: free(data("of-administrator", "", "of-administrator"))},
		},
		"DataOfAnotherNamespaceWithoutRecord": {
			reason: "a Secret of the same name in another namespace is another Secret",
			host: claimed(withoutRecord, func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.NetworkData = &corev1.SecretReference{Namespace: "other", Name: "of-machine"}
			}),
			release: host.Release{Machine: machineName, Namespace: "metal3", Secrets: []string{"of-machine"}},
			want: host.ReleaseStep{Write: free(func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.NetworkData = &corev1.SecretReference{Namespace: "other", Name: "of-machine"}
			})},
		},
		"DataWithoutRecordThatIsReserved": {
			reason:  "the administrator's data stays for the next machine of the owner",
			host:    claimed(withoutRecord, data("", "", "of-administrator")),
			release: reserve,
			want:    host.ReleaseStep{Write: free(reserved(owner), data("", "", "of-administrator"))},
		},
		"RemovesOwnersOfKindMetal3Machine": {
			reason:  "the garbage collector would delete the host together with its machine",
			host:    claimed(owners(machineOwner("v1beta1"), ownerOfUser(), machineOwner("v1beta2"))),
			release: release,
			want:    host.ReleaseStep{Write: free(owners(ownerOfUser()))},
		},
		"RemovesAnnotationsOfARemediation": {
			reason:  "they would keep the host powered off for the next machine",
			host:    claimed(note(remediationReboot, ""), note("reboot.metal3.io/by-hand", "")),
			release: release,
			want:    host.ReleaseStep{Write: free(note("reboot.metal3.io/by-hand", ""))},
		},
		"PauseOfTheUserStays": {
			reason:  "the user ends it",
			host:    claimed(note(bmov1alpha1.PausedAnnotation, "user")),
			release: release,
			want:    host.ReleaseStep{Write: free(note(bmov1alpha1.PausedAnnotation, "user"))},
		},
		"RemovesBlockMove": {
			reason:  "no other controller removes it",
			host:    claimed(note(blockMove, "true"), note(remediationReboot, "")),
			release: release,
			want:    host.ReleaseStep{Write: free()},
		},
		"OwnPauseEndsBeforeDeprovisioning": {
			reason: "BMO ignores a paused host, so the release would wait forever",
			host:   claimed(running, state(bmov1alpha1.StateProvisioned), ownPause),
			want: host.ReleaseStep{
				Write: claimed(state(bmov1alpha1.StateProvisioned)),
				Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: provisioned)"),
			},
			release: release,
		},
		"OwnPauseEndsDuringDeprovisioning": {
			reason: "the pause may have come after the first step of the release",
			host:   claimed(state(bmov1alpha1.StateDeprovisioning), ownPause),
			want: host.ReleaseStep{
				Write: claimed(state(bmov1alpha1.StateDeprovisioning)),
				Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: deprovisioning)"),
			},
			release: release,
		},
		"MovesWhileBusy": {
			reason: "a move does not take along an object that is being deleted; BMO still deprovisions by the cleaning mode",
			host: claimed(state(bmov1alpha1.StateDeprovisioning), note(infrav1.MoveWhileBusyAnnotation, ""), uncleaned,
				cleanedBefore),
			release: release,
			want: host.ReleaseStep{
				Write: free(state(bmov1alpha1.StateDeprovisioning), note(infrav1.MoveWhileBusyAnnotation, ""), uncleaned,
					cleanedBefore),
			},
		},
		"StatusLost": {
			reason: "BMO registers the host again, and would power its old system on",
			host: claimed(state(bmov1alpha1.StateNone), finalizer, uncleaned,
				cleanedBefore),
			release: release,
			want: host.ReleaseStep{
				Write: free(state(bmov1alpha1.StateNone), finalizer, uncleaned, cleanedBefore),
			},
		},
		"DeprovisioningFails": {
			reason: "the message contains the error of BMO",
			host: claimed(state(bmov1alpha1.StateDeprovisioning), func(h *bmov1alpha1.BareMetalHost) {
				h.Status.ErrorType, h.Status.ErrorMessage = bmov1alpha1.ProvisioningError, "cleaning\n failed"
			}),
			release: release,
			want: waiting(infrav1.HostErrorReason, "BareMetalHost host-0 reports provisioning error: cleaning failed. "+
				"If the hardware is gone, delete BareMetalHost host-0: its disks are then not wiped"),
		},
		"DeprovisioningOfADeletedHostFails": {
			reason: "BMO deletes the host after some errors, which ends the release",
			host: claimed(state(bmov1alpha1.StateDeprovisioning), func(h *bmov1alpha1.BareMetalHost) {
				h.Status.ErrorType, h.Status.ErrorMessage = bmov1alpha1.RegistrationError, "no answer"
				h.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
			}),
			release: release,
			want:    waiting(infrav1.HostErrorReason, "BareMetalHost host-0 reports registration error: no answer"),
		},
		"UserPausedTheHost": {
			reason:  "the message contains the remedy",
			host:    claimed(state(bmov1alpha1.StateProvisioned), note(bmov1alpha1.PausedAnnotation, "user")),
			release: release,
			want: waiting(infrav1.HostErrorReason,
				"BareMetalHost host-0 is paused: remove its annotation baremetalhost.metal3.io/paused"),
		},
		"RemovesCustomDeploy": {
			reason: "it has the same effect as an image",
			host: claimed(state(bmov1alpha1.StateProvisioned), func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"}
			}),
			release: release,
			want: host.ReleaseStep{
				Write: claimed(state(bmov1alpha1.StateProvisioned)),
				Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: provisioned)"),
			},
		},
		"CleaningModeOfTheMachine": {
			reason: "the user disabled cleaning while the machine was not reconciled",
			host: claimed(running, cleaning(bmov1alpha1.CleaningModeMetadata),
				state(bmov1alpha1.StateProvisioned)),
			release: disabled,
			want: host.ReleaseStep{
				Write: claimed(cleaning(bmov1alpha1.CleaningModeDisabled), state(bmov1alpha1.StateProvisioned),
					note(infrav1.ReleaseAnnotation, `{"online":false,"automatedCleaningMode":"metadata"}`)),
				Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: provisioned)"),
			},
		},
		"CleaningModeOfTheMachineWithCustomDeploy": {
			reason: "a custom deploy step has the same effect as an image",
			host: claimed(cleaning(bmov1alpha1.CleaningModeMetadata), func(h *bmov1alpha1.BareMetalHost) {
				h.Spec.CustomDeploy = &bmov1alpha1.CustomDeploy{Method: "install"}
			}),
			release: disabled,
			want: host.ReleaseStep{
				Write: claimed(cleaning(bmov1alpha1.CleaningModeDisabled),
					note(infrav1.ReleaseAnnotation, `{"online":false,"automatedCleaningMode":"metadata"}`)),
				Outcome: outcome.Waiting(infrav1.HostDeprovisioningReason,
					"Waiting for BareMetalHost host-0 to be deprovisioned (state: available)"),
			},
		},
		"CleaningModeOfTheUserAfterTheFirstStep": {
			reason: "the user disables cleaning on the host if the cleaning fails",
			host:   claimed(cleaning(bmov1alpha1.CleaningModeDisabled), state(bmov1alpha1.StateDeprovisioning)),
			release: host.Release{
				Machine: machineName, Namespace: "metal3", CleaningMode: infrav1.CleaningModeMetadata, FastTrack: true,
			},
			want: waiting(infrav1.HostDeprovisioningReason,
				"Waiting for BareMetalHost host-0 to be deprovisioned (state: deprovisioning)"),
		},
		"CleaningModeOfTheUserWithoutOneOfTheMachine": {
			reason: "the claim did not replace the mode, so the host keeps it",
			host: claimed(cleaning(bmov1alpha1.CleaningModeDisabled), state(bmov1alpha1.StateAvailable),
				note(infrav1.ReleaseAnnotation, `{"online":true}`)),
			release: release,
			want:    host.ReleaseStep{Write: free(cleaning(bmov1alpha1.CleaningModeDisabled))},
		},
		"CleaningModeThatAMachineReplaced": {
			reason: "a machine has set the mode",
			host: claimed(cleaning(bmov1alpha1.CleaningModeDisabled), state(bmov1alpha1.StateAvailable),
				cleanedBefore),
			release: release,
			want:    host.ReleaseStep{Write: free(cleaning(bmov1alpha1.CleaningModeMetadata))},
		},
		"ReservationWithoutARecord": {
			reason: "the original values are unknown",
			host: claimed(func(h *bmov1alpha1.BareMetalHost) {
				delete(h.Annotations, infrav1.ReleaseAnnotation)
			}, note(remediationReboot, ""), owners(machineOwner("v1beta2"))),
			release: reserve,
			want:    host.ReleaseStep{Write: free(reserved(owner))},
		},
		"ReservationReplacesAnOlderOne": {
			reason:  "the owner of the releasing machine has precedence",
			host:    claimed(labelled(infrav1.NodeReuseLabel, "md-other")),
			release: reserve,
			want: host.ReleaseStep{Write: claimed(withoutLabel, reserved(owner),
				note(infrav1.ReleaseAnnotation, foundOff))},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := host.PlanRelease(tc.host, tc.release)
			if diff := cmp.Diff(tc.want, got, cmpopts.EquateEmpty(), cmp.AllowUnexported(outcome.Outcome{})); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
