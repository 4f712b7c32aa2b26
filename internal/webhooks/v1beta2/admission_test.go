package v1beta2_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/webhooks/v1beta2"
)

const (
	namespace        = "metal3"
	deleteForMove    = "clusterctl.cluster.x-k8s.io/delete-for-move"
	changeOfProvider = `spec.providerID: Invalid value: "metal3://metal3/host-1/machine": is ` +
		`"metal3://metal3/host-0/machine" and does not change; restore it: the Node of the machine carries it`
	missingImage      = "spec.image: Required value: set image, or customDeploy.method to deploy without one"
	imageIsUnreadable = `spec.image.url: Invalid value: "no url": is not a URL; write it like https://server/path`
)

// step is one request to a validator. It is a creation if before is empty.
type step[T client.Object] struct {
	reason   string
	ctx      context.Context
	before   T
	after    T
	want     []string
	warnings []string
}

// judge validates steps and compares the findings.
func judge[T client.Object](t *testing.T, validator admission.Validator[T], steps map[string]step[T]) {
	t.Helper()
	for name, step := range steps {
		t.Run(name, func(t *testing.T) {
			ctx := step.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			var warnings admission.Warnings
			var err error
			if client.Object(step.before) == client.Object(*new(T)) {
				warnings, err = validator.ValidateCreate(ctx, step.after)
			} else {
				warnings, err = validator.ValidateUpdate(ctx, step.before, step.after)
			}
			if diff := cmp.Diff(step.want, causes(t, err), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\nerrors (-want +got):\n%s", step.reason, diff)
			}
			if diff := cmp.Diff(step.warnings, []string(warnings), cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%s\nwarnings (-want +got):\n%s", step.reason, diff)
			}
		})
	}
}

// causes returns the fields of an error, each with its message.
func causes(t *testing.T, err error) []string {
	t.Helper()
	if err == nil {
		return nil
	}
	var status *apierrors.StatusError
	if !errors.As(err, &status) || !apierrors.IsInvalid(err) {
		t.Fatalf("want an error that says Invalid, got %T: %v", err, err)
	}
	var found []string
	for _, cause := range status.ErrStatus.Details.Causes {
		found = append(found, cause.Field+": "+cause.Message)
	}
	return found
}

func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: namespace} }

// altered returns a changed object.
func altered[T any](original func() *T, changes ...func(*T)) *T {
	object := original()
	for _, change := range changes {
		change(object)
	}
	return object
}

// dryRun returns the context of a dry run of the topology controller.
func dryRun(ctx context.Context) context.Context {
	return admission.NewContextWithRequest(ctx, admission.Request{
		AdmissionRequest: admissionv1.AdmissionRequest{Operation: admissionv1.Update, DryRun: ptr.To(true)},
	})
}

func annotated(key string) func(*infrav1.Metal3Machine) {
	return func(machine *infrav1.Metal3Machine) { machine.Annotations = map[string]string{key: ""} }
}

// TestAdmittedWithoutValidation tests the rules that all kinds share.
func TestAdmittedWithoutValidation(t *testing.T) {
	healthy := func(changes ...func(*infrav1.Metal3Machine)) *infrav1.Metal3Machine {
		return altered(validMachine, changes...)
	}
	provider := func(id string) func(*infrav1.Metal3Machine) {
		return func(machine *infrav1.Metal3Machine) { machine.Spec.ProviderID = id }
	}
	broken := func(machine *infrav1.Metal3Machine) { machine.Spec.Image = nil }
	deleted := func(machine *infrav1.Metal3Machine) {
		machine.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	}
	provisioned := func(machine *infrav1.Metal3Machine) {
		machine.Status.Initialization.Provisioned = ptr.To(true)
	}
	before := healthy(provider("metal3://metal3/host-0/machine"), provisioned)
	moved := provider("metal3://metal3/host-1/machine")

	judge(t, v1beta2.Metal3MachineValidator(), map[string]step[*infrav1.Metal3Machine]{
		"nothing special": {
			reason: "state and change are validated",
			before: before, after: healthy(moved, broken),
			want: []string{missingImage, changeOfProvider},
		},
		"deleted for a move": {
			reason: "a refusal would stop clusterctl",
			before: before, after: healthy(moved, broken, annotated(deleteForMove)),
		},
		"created with the annotation": {
			reason: "the annotation counts at a creation",
			after:  healthy(broken, annotated(deleteForMove)),
		},
		"being deleted": {
			reason: "only finalizers of a deleted object change",
			before: before, after: healthy(moved, broken, deleted),
		},
		"dry run of the topology controller": {
			reason: "only the state is validated",
			ctx:    dryRun(t.Context()),
			before: before, after: healthy(moved, broken, annotated(clusterv1.TopologyDryRunAnnotation)),
			want: []string{missingImage},
		},
		"dry run of another user": {
			reason: "a dry run without the annotation is an ordinary request",
			ctx:    dryRun(t.Context()),
			before: before, after: healthy(moved),
			want: []string{changeOfProvider},
		},
		"annotation without dry run": {
			reason: "the annotation alone has no effect",
			before: before, after: healthy(moved, annotated(clusterv1.TopologyDryRunAnnotation)),
			want: []string{changeOfProvider},
		},
	})
}

// TestExistingErrors requires that an update is refused only for new errors.
func TestExistingErrors(t *testing.T) {
	image := func(url string) func(*infrav1.Metal3Machine) {
		return func(machine *infrav1.Metal3Machine) { machine.Spec.Image.URL = url }
	}
	before := altered(validMachine, image("no url"))
	judge(t, v1beta2.Metal3MachineValidator(), map[string]step[*infrav1.Metal3Machine]{
		"created": {
			reason: "all errors of a new object count",
			after:  before, want: []string{imageIsUnreadable},
		},
		"finalizer removed": {
			reason: "metadata of an invalid object can be changed",
			before: altered(validMachine, image("no url"), func(machine *infrav1.Metal3Machine) {
				machine.Finalizers = []string{infrav1.MachineFinalizer}
			}),
			after: before,
		},
		"another field changed": {
			reason: "an existing error may stay",
			before: before,
			after: altered(validMachine, image("no url"), func(machine *infrav1.Metal3Machine) {
				machine.Spec.FailureDomain = "b"
			}),
		},
		"another field broken": {
			reason: "only the new error is reported",
			before: before,
			after: altered(validMachine, image("no url"), func(machine *infrav1.Metal3Machine) {
				machine.Spec.Image.Checksum = ""
			}),
			want: []string{"spec.image.checksum: Required value: give the checksum of the image or the URL of a file " +
				"that holds it; only an image of format live-iso or with a URL that begins with oci:// needs none"},
		},
		"broken in another way": {
			reason: "another invalid value is a new error",
			before: before, after: altered(validMachine, image("none either")),
			want: []string{`spec.image.url: Invalid value: "none either": is not a URL; write it like https://server/path`},
		},
		"repaired": {
			reason: "a correction is allowed",
			before: before, after: validMachine(),
		},
	})
}

func TestErrorText(t *testing.T) {
	_, err := v1beta2.Metal3MachineValidator().ValidateCreate(t.Context(),
		&infrav1.Metal3Machine{ObjectMeta: named("machine")})
	want := `Metal3Machine.infrastructure.cluster.x-k8s.io "machine" is invalid: ` + missingImage
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("the text names kind, object, field and remedy (-want +got):\n%s", diff)
	}
}

func TestDeletionIsAdmitted(t *testing.T) {
	warnings, err := v1beta2.Metal3MachineValidator().ValidateDelete(t.Context(), &infrav1.Metal3Machine{})
	if len(warnings) > 0 || err != nil {
		t.Errorf("got warnings %q and error %v", warnings, err)
	}
}
