package step_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/hostoperator/step"
)

func TestAdmit(t *testing.T) {
	const (
		none       = bmov1alpha1.StateNone
		unmanaged  = bmov1alpha1.StateUnmanaged
		available  = bmov1alpha1.StateAvailable
		restorable = `{"provisioning":{"state":"provisioned","ID":"old"},"poweredOn":true,"operationalStatus":"OK"}`
	)
	moved := func(s *step.Seen) {
		s.Host.Status = bmov1alpha1.BareMetalHostStatus{}
		s.Host.Annotations[bmov1alpha1.StatusAnnotation] = restorable
	}
	hardware := &bmov1alpha1.HardwareDetails{RAMMebibytes: 1024}
	recorded := func(s *step.Seen) {
		s.Hardware = &bmov1alpha1.HardwareData{Spec: bmov1alpha1.HardwareDataSpec{HardwareDetails: hardware}}
		s.Hardware.Finalizers = []string{step.HardwareFinalizer}
	}
	hasHardware := func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
		t.Helper()
		if diff := cmp.Diff(hardware, host.Status.HardwareDetails); diff != "" {
			t.Errorf("hardware (-want +got):\n%s", diff)
		}
	}
	const failure, ok = bmov1alpha1.OperationalStatusError, bmov1alpha1.OperationalStatusOK

	for name, s := range map[string]story{
		"paused": {
			reason: "a paused host is not touched, even if a status is to be restored and it is deleted",
			seen:   seen(none, "", moved, deleted, recorded, annotated(bmov1alpha1.PausedAnnotation, "")),
			want:   want{after: step.Never},
		},
		"restored": {
			reason: "after a move the status comes from the annotation, the hardware from the HardwareData",
			seen:   seen(none, "", moved, recorded),
			want:   want{state: bmov1alpha1.StateProvisioned, status: ok},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				hasHardware(t, host)
				if !host.Status.PoweredOn || host.Status.Provisioning.ID != "old" || host.Status.LastUpdated.IsZero() {
					t.Errorf("not all of the status was restored: %+v", host.Status)
				}
			},
		},
		"restored before": {
			reason: "a status that exists wins, and the annotation goes",
			seen:   seen(available, "", annotated(bmov1alpha1.StatusAnnotation, restorable)),
			want:   want{},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if len(host.Annotations) > 0 {
					t.Errorf("annotations left: %v", host.Annotations)
				}
			},
		},
		"broken status annotation": {
			reason: "what cannot be read goes like the rest",
			seen:   seen(none, "", moved, annotated(bmov1alpha1.StatusAnnotation, "{")),
			want:   want{},
		},
		"hardware without status": {
			reason: "hardware that is known comes back to a host that lacks it",
			seen:   seen(available, "", recorded),
			check:  hasHardware,
		},
		"hardware from an annotation": {
			reason: "a user may say what no inspection finds",
			seen: seen(bmov1alpha1.StateRegistering, "",
				annotated(bmov1alpha1.HardwareDetailsAnnotation, `{"ramMebibytes":1024}`)),
			check: hasHardware,
		},
		"hardware annotation consumed": {
			reason: "an annotation that was taken over goes",
			seen: seen(bmov1alpha1.StateRegistering, "",
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status.HardwareDetails = hardware }),
				annotated(bmov1alpha1.HardwareDetailsAnnotation, `{"ramMebibytes":2048}`)),
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				hasHardware(t, host)
				if len(host.Annotations) > 0 {
					t.Errorf("annotations left: %v", host.Annotations)
				}
			},
		},
		"broken hardware annotation": {
			reason: "only the user can correct it",
			seen: seen(bmov1alpha1.StateRegistering, "",
				annotated(bmov1alpha1.HardwareDetailsAnnotation, `{"ram":1}`)),
			want: want{after: step.Never},
		},
		"hardware of a deleted host": {
			reason: "the HardwareData goes with its host",
			seen:   seen(available, "", recorded, deleted),
			want:   want{chore: step.ReleaseHardware},
		},
		"new": {
			reason: "first of all a host is kept from going unseen",
			seen:   seen(none, "", onHost(func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = nil })),
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if !controllerutil.ContainsFinalizer(host, bmov1alpha1.BareMetalHostFinalizer) {
					t.Error("no finalizer")
				}
			},
		},
		"gone": {
			reason: "others keep a host that this operator has let go",
			seen: seen(bmov1alpha1.StateDeleting, "", deleted,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Finalizers = []string{"other"} })),
			want: want{after: step.Never},
		},
		"registering": {
			reason: "who names a management controller is registered",
			seen:   seen(none, ""),
			want:   want{state: bmov1alpha1.StateRegistering, status: ok},
			check: func(t *testing.T, host *bmov1alpha1.BareMetalHost) {
				t.Helper()
				if !host.Status.OperationHistory.Register.Start.Equal(&now) {
					t.Errorf("history: %+v", host.Status.OperationHistory)
				}
			},
		},
		"unmanaged": {
			reason: "nothing can be done with a host without a management controller",
			seen:   seen(none, "", withoutBMC),
			want:   want{state: unmanaged, status: bmov1alpha1.OperationalStatusDiscovered},
		},
		"still unmanaged": {
			reason: "an event tells when that changes",
			seen:   seen(unmanaged, "", withoutBMC),
			want:   want{after: step.Never},
		},
		"managed at last": {
			reason: "the user has named the management controller",
			seen: seen(unmanaged, "", onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.OperationalStatus = bmov1alpha1.OperationalStatusDiscovered
			})),
			want: want{state: bmov1alpha1.StateRegistering, status: ok},
		},
		"deleted before it began": {
			reason: "there is nothing to clean",
			seen:   seen(unmanaged, "", deleted),
			want:   want{state: bmov1alpha1.StateDeleting},
		},
		"no Secret": {
			reason: "no event tells of a Secret that nobody owns",
			seen:   seen(bmov1alpha1.StateRegistering, "", noSecret),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: rules.Retry,
				text: "the BMC Secret metal3/host-bmc does not exist: create it",
			},
		},
		"no name of a Secret": {
			reason: "the host changes when this does",
			seen: seen(bmov1alpha1.StateRegistering, "", noSecret,
				onHost(func(host *bmov1alpha1.BareMetalHost) { host.Spec.BMC.CredentialsName = "" })),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: step.Never,
				text: "name the Secret with the BMC credentials in spec.bmc.credentialsName",
			},
		},
		"incomplete Secret": {
			reason: "the Secret is owned, so its change wakes the operator",
			seen: seen(bmov1alpha1.StateRegistering, "",
				func(s *step.Seen) { s.Secret.Data["password"] = []byte(" \n") }),
			want: want{
				status: failure, error: bmov1alpha1.RegistrationError, count: 1, after: step.Never,
				text: "the BMC Secret metal3/host-bmc needs the keys username and password, and values for both",
			},
		},
		"unclaimed incomplete Secret": {
			reason: "it is claimed first, else nothing would wake the operator",
			seen: seen(bmov1alpha1.StateRegistering, "",
				func(s *step.Seen) { s.Secret = &corev1.Secret{} }),
			want: want{chore: step.ClaimSecret},
		},
		"Secret of another host": {
			reason: "after a move the Secret has to get its owner again",
			seen:   seen(available, "", func(s *step.Seen) { s.Secret.OwnerReferences[0].UID = "other" }),
			want:   want{chore: step.ClaimSecret},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := step.Admit(s.seen, rules)
			if got == nil {
				t.Fatalf("%s: Ironic would be asked", s.reason)
			}
			s.judge(t, got)
		})
	}
}

func TestAdmitLetsThrough(t *testing.T) {
	const available = bmov1alpha1.StateAvailable
	for name, through := range map[string]step.Seen{
		"all is well": seen(available, ""),
		"hardware that nobody recorded": seen(available, "", annotated("inspect.metal3.io", "disabled"),
			onHost(func(host *bmov1alpha1.BareMetalHost) {
				host.Status.HardwareDetails = &bmov1alpha1.HardwareDetails{RAMMebibytes: 1024}
			})),
		"deleted without a Secret": seen(available, "", deleted, noSecret),
		"deleted with half a Secret": seen(available, "", deleted,
			func(s *step.Seen) { delete(s.Secret.Data, "username") }),
		"the Secret is deleted too": seen(available, "", func(s *step.Seen) {
			s.Secret.DeletionTimestamp = &now
			s.Secret.Labels = nil
		}),
	} {
		t.Run(name, func(t *testing.T) {
			if got := step.Admit(through, rules); got != nil {
				t.Errorf("not let through: %s", got.Why)
			}
		})
	}
}

func withoutBMC(s *step.Seen) { s.Host.Spec.BMC = bmov1alpha1.BMCDetails{} }

// A status that was written by the provider is a status of this version: nothing in it gets lost.
func TestStatusSurvivesItsAnnotation(t *testing.T) {
	before := running(bmov1alpha1.StateProvisioned, "").Host.Status
	encoded, err := json.Marshal(before)
	if err != nil {
		t.Fatal(err)
	}
	moved := seen(bmov1alpha1.StateNone, "", annotated(bmov1alpha1.StatusAnnotation, string(encoded)),
		onHost(func(host *bmov1alpha1.BareMetalHost) { host.Status = bmov1alpha1.BareMetalHostStatus{} }))
	got := step.Admit(moved, rules)
	if diff := cmp.Diff(before, got.Host.Status); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}
