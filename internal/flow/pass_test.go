package flow_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/flow"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/build"
)

const (
	ours   = "ours.example.com/finalizer"
	theirs = "theirs.example.com/finalizer"
)

// world is an API server with one machine and a pass on it.
type world struct {
	client.Client
	t *testing.T

	// writes are the patches of the pass, in order.
	writes []string
	// fail runs before each write of the pass. Its error fails the write.
	fail func(write string) error
	// others is the client for writes outside the pass.
	others client.WithWatch
	events *recorder
	pass   *flow.Pass
}

// recorder records events in place of the recorder of client-go.
type recorder struct{ lines []string }

// Eventf implements events.EventRecorder.
//
//nolint:revive // The interface defines the number of arguments.
func (r *recorder) Eventf(_, _ runtime.Object, eventType, reason, action, note string, args ...any) {
	r.lines = append(r.lines, strings.Join([]string{eventType, reason, action, fmt.Sprintf(note, args...)}, "|"))
}

func newWorld(t *testing.T, options ...build.Metal3MachineOption) *world {
	t.Helper()
	machine := build.Metal3Machine("machine-0", "cluster-0", options...)
	w := &world{t: t, events: &recorder{}, fail: func(string) error { return nil }}
	builder := fake.NewClientBuilder().WithScheme(build.Scheme())
	others := builder.WithObjects(machine).WithStatusSubresource(machine).Build()
	w.others = others
	write := func(object client.Object, patch client.Patch, do func() error) error {
		data, err := patch.Data(object)
		if err != nil {
			return err
		}
		w.writes = append(w.writes, string(data))
		if err := w.fail(string(data)); err != nil {
			return err
		}
		return do()
	}
	w.Client = interceptor.NewClient(others, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch,
			options ...client.PatchOption,
		) error {
			return write(object, patch, func() error { return c.Patch(ctx, object, patch, options...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, resource string, object client.Object,
			patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			return write(object, patch, func() error {
				return c.SubResource(resource).Patch(ctx, object, patch, options...)
			})
		},
	})
	return w
}

// stored reads the machine from the API server.
func (w *world) stored() *infrav1.Metal3Machine {
	w.t.Helper()
	machine := &infrav1.Metal3Machine{}
	key := client.ObjectKey{Namespace: build.DefaultNamespace, Name: "machine-0"}
	if err := w.others.Get(context.Background(), key, machine); err != nil {
		w.t.Fatal(err)
	}
	return machine
}

// begin reads the machine and starts a pass on it.
func (w *world) begin() *infrav1.Metal3Machine {
	w.t.Helper()
	machine := w.stored()
	reporter := &flow.Reporter{Client: w.Client, Recorder: flow.NewRecorder(w.events)}
	w.pass = reporter.Begin(machine, flow.Milestones(nil, []string{"Trouble"}))
	return machine
}

// meanwhile changes the machine outside the pass.
func (w *world) meanwhile(change func(*infrav1.Metal3Machine)) {
	w.t.Helper()
	machine := w.stored()
	change(machine)
	if err := w.others.Update(context.Background(), machine); err != nil {
		w.t.Fatal(err)
	}
}

// deleted deletes the machine. Its finalizers keep it.
func (w *world) deleted() {
	w.t.Helper()
	if err := w.others.Delete(context.Background(), w.stored()); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) end(reached outcome.Outcome, err error, report func()) (ctrl.Result, error) {
	return w.pass.End(context.Background(), reached, err, report)
}

// mustEnd ends a pass that succeeds.
func (w *world) mustEnd(report func()) {
	w.t.Helper()
	if _, err := w.end(outcome.Done(), nil, report); err != nil {
		w.t.Fatal(err)
	}
}

// endsInConflict ends a pass whose last write conflicts, which is not an error.
func (w *world) endsInConflict(report func()) {
	w.t.Helper()
	result, err := w.end(outcome.Done(), nil, report)
	if err != nil || result.RequeueAfter != flow.ConflictDelay {
		w.t.Errorf("got %v, %v, want a requeue after %s", result, err, flow.ConflictDelay)
	}
}

func (w *world) wrote(want ...string) {
	w.t.Helper()
	if diff := cmp.Diff(want, w.writes); diff != "" {
		w.t.Errorf("writes: -want +got:\n%s", diff)
	}
}

// holds returns true if the stored machine has the finalizer.
func (w *world) holds(finalizer string) bool {
	w.t.Helper()
	return controllerutil.ContainsFinalizer(w.stored(), finalizer)
}

func nothing() {}

func addresses(machine *infrav1.Metal3Machine) func() {
	return func() { machine.Status.FailureDomain = "a" }
}

const addressesPatch = `{"status":{"failureDomain":"a"}}`

func annotate(machine *infrav1.Metal3Machine, key string) {
	metav1.SetMetaDataAnnotation(&machine.ObjectMeta, key, "x")
}

func ready(machine *infrav1.Metal3Machine, status metav1.ConditionStatus, reason, message string) {
	conditions.Set(machine, metav1.Condition{Type: "Ready", Status: status, Reason: reason, Message: message})
}

func TestUnchangedPassSendsNoWrite(t *testing.T) {
	w := newWorld(t, build.Finalizers(ours))
	machine := w.begin()
	ready(machine, metav1.ConditionTrue, "Ready", "")
	w.mustEnd(nothing)
	w.writes, w.events.lines = nil, nil

	again := w.begin()
	if err := w.pass.Save(context.Background()); err != nil {
		t.Fatal(err)
	}
	w.mustEnd(func() { ready(again, metav1.ConditionTrue, "Ready", "") })
	w.wrote()
	if len(w.events.lines) > 0 {
		t.Errorf("events without a change: %q", w.events.lines)
	}
}

func TestPassWritesAtMostTwice(t *testing.T) {
	cases := map[string]struct {
		reason string
		change func(*infrav1.Metal3Machine)
		want   []string
	}{
		"Status": {
			reason: "metadata and spec did not change",
			change: func(m *infrav1.Metal3Machine) { addresses(m)() },
			want:   []string{addressesPatch},
		},
		"Spec": {
			reason: "the patch contains only the changes",
			change: func(m *infrav1.Metal3Machine) { m.Spec.ProviderID = "metal3://a/b/c" },
			want:   []string{`{"spec":{"providerID":"metal3://a/b/c"}}`},
		},
		"Everything": {
			reason: "metadata and spec go together, then the status",
			change: func(m *infrav1.Metal3Machine) {
				annotate(m, "key")
				m.Spec.ProviderID = "metal3://a/b/c"
				addresses(m)()
			},
			want: []string{
				`{"metadata":{"annotations":{"key":"x"}},"spec":{"providerID":"metal3://a/b/c"}}`, addressesPatch,
			},
		},
		"Finalizer": {
			reason: "the patch of a list with several writers contains the resource version",
			change: func(m *infrav1.Metal3Machine) { controllerutil.AddFinalizer(m, ours) },
			want:   []string{`{"metadata":{"finalizers":["` + ours + `"],"resourceVersion":"999"}}`},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			machine := w.begin()
			tc.change(machine)
			w.mustEnd(nothing)
			if diff := cmp.Diff(tc.want, w.writes); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			want, got := machine.DeepCopy(), w.stored()
			want.ResourceVersion, got.ResourceVersion, want.TypeMeta, got.TypeMeta = "", "", metav1.TypeMeta{}, metav1.TypeMeta{}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the API server has another object: -pass +server:\n%s", diff)
			}
		})
	}
}

func TestPassSavesOnTheWay(t *testing.T) {
	w := newWorld(t)
	machine := w.begin()
	annotate(machine, "key")
	addresses(machine)()
	for range 2 {
		if err := w.pass.Save(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	w.wrote(`{"metadata":{"annotations":{"key":"x"}}}`)
	w.mustEnd(nothing)
	w.wrote(`{"metadata":{"annotations":{"key":"x"}}}`, addressesPatch)
}

func TestPassReportsTheGenerationThatItWrote(t *testing.T) {
	w := newWorld(t)
	machine := w.begin()
	machine.Generation = 1
	machine.Spec.ProviderID = "metal3://a/b/c"
	w.fail = func(write string) error {
		if strings.Contains(write, "providerID") {
			// The fake API server does not count generations.
			w.meanwhile(func(m *infrav1.Metal3Machine) { m.Generation = 2 })
		}
		return nil
	}
	w.mustEnd(func() { ready(machine, metav1.ConditionTrue, "Ready", "") })
	if got := w.stored().Status.Conditions[0].ObservedGeneration; got != 2 {
		t.Errorf("the condition has generation %d, the object has 2", got)
	}
}

func TestPassAndOtherWriters(t *testing.T) {
	addTheirs := func(m *infrav1.Metal3Machine) { controllerutil.AddFinalizer(m, theirs) }

	t.Run("an annotation does not conflict", func(t *testing.T) {
		w := newWorld(t)
		machine := w.begin()
		w.meanwhile(func(m *infrav1.Metal3Machine) { annotate(m, "other") })
		annotate(machine, "key")
		w.mustEnd(nothing)
		if got := w.stored().Annotations; len(got) != 2 {
			t.Errorf("got annotations %v, want both", got)
		}
	})
	t.Run("a finalizer conflicts", func(t *testing.T) {
		w := newWorld(t)
		machine := w.begin()
		w.meanwhile(addTheirs)
		controllerutil.AddFinalizer(machine, ours)
		w.endsInConflict(nothing)
	})
	t.Run("an ownerReference conflicts", func(t *testing.T) {
		w := newWorld(t)
		machine := w.begin()
		w.meanwhile(func(m *infrav1.Metal3Machine) { annotate(m, "other") })
		machine.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "a", UID: "1"}}
		w.endsInConflict(nothing)
	})
	t.Run("a finalizer conflicts after a write without a conflict", func(t *testing.T) {
		w := newWorld(t)
		machine := w.begin()
		w.meanwhile(addTheirs)
		annotate(machine, "key")
		if err := w.pass.Save(context.Background()); err != nil {
			t.Fatal(err)
		}
		controllerutil.AddFinalizer(machine, ours)
		w.endsInConflict(nothing)
		if !w.holds(theirs) {
			t.Error("the finalizer of the other client is lost")
		}
	})
	t.Run("the removal of a finalizer conflicts after the status", func(t *testing.T) {
		w := newWorld(t, build.Finalizers(ours, "kept.example.com/finalizer"))
		w.deleted()
		machine := w.begin()
		w.meanwhile(func(m *infrav1.Metal3Machine) { controllerutil.RemoveFinalizer(m, "kept.example.com/finalizer") })
		controllerutil.RemoveFinalizer(machine, ours)
		w.endsInConflict(addresses(machine))
	})
	t.Run("a finalizer does not conflict with an own write", func(t *testing.T) {
		w := newWorld(t)
		machine := w.begin()
		annotate(machine, "key")
		if err := w.pass.Save(context.Background()); err != nil {
			t.Fatal(err)
		}
		controllerutil.AddFinalizer(machine, ours)
		w.mustEnd(nothing)
		if !w.holds(ours) {
			t.Error("the finalizer is missing")
		}
	})
}

func TestPassOnDeletion(t *testing.T) {
	gone := apierrors.NewNotFound(infrav1.GroupVersion.WithResource("metal3machines").GroupResource(), "machine-0")

	t.Run("the status is written alone if nothing else changed", func(t *testing.T) {
		w := newWorld(t, build.Finalizers(ours))
		w.deleted()
		w.mustEnd(addresses(w.begin()))
		w.wrote(addressesPatch)
	})
	t.Run("the status is written before the metadata", func(t *testing.T) {
		w := newWorld(t, build.Finalizers(ours))
		w.deleted()
		machine := w.begin()
		annotate(machine, "key")
		w.mustEnd(addresses(machine))
		w.wrote(addressesPatch, `{"metadata":{"annotations":{"key":"x"}}}`)
	})
	t.Run("the last finalizer is removed without a status", func(t *testing.T) {
		w := newWorld(t, build.Finalizers(ours))
		w.deleted()
		machine := w.begin()
		version := machine.ResourceVersion
		controllerutil.RemoveFinalizer(machine, ours)
		w.mustEnd(addresses(machine))
		w.wrote(`{"metadata":{"finalizers":null,"resourceVersion":"` + version + `"}}`)
		err := w.others.Get(context.Background(), client.ObjectKeyFromObject(machine), machine)
		if !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want an object that is gone", err)
		}
	})
	t.Run("a deleted object is no error", func(t *testing.T) {
		for _, writes := range []int{0, 1} {
			w := newWorld(t, build.Finalizers(ours))
			w.deleted()
			machine := w.begin()
			w.fail = func(string) error {
				if len(w.writes) > writes {
					return gone
				}
				return nil
			}
			annotate(machine, "key")
			if _, err := w.end(outcome.Done(), nil, addresses(machine)); err != nil {
				t.Errorf("gone at write %d: got %v", writes+1, err)
			}
		}
	})
	t.Run("an object without a deletionTimestamp that is gone is an error", func(t *testing.T) {
		w := newWorld(t)
		machine := w.begin()
		w.fail = func(string) error { return gone }
		if _, err := w.end(outcome.Done(), nil, addresses(machine)); !apierrors.IsNotFound(err) {
			t.Errorf("got %v, want not found", err)
		}
	})
}

func TestPassJoinsErrors(t *testing.T) {
	reconcile, refused := errors.New("the reconcile failed"), errors.New("the write failed")
	cases := map[string]struct {
		err    error
		fail   string
		want   []error
		writes int
	}{
		"nothing fails":       {writes: 2},
		"the reconcile fails": {err: reconcile, want: []error{reconcile}, writes: 2},
		"the metadata fails":  {fail: `"metadata"`, want: []error{refused}, writes: 2},
		"the status fails":    {fail: `"status"`, want: []error{refused}, writes: 2},
		"the reconcile and the metadata fail": {
			err: reconcile, fail: `"metadata"`, want: []error{reconcile, refused}, writes: 2,
		},
		"the reconcile and the status fail": {
			err: reconcile, fail: `"status"`, want: []error{reconcile, refused}, writes: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			machine := w.begin()
			w.fail = func(write string) error {
				if tc.fail != "" && strings.Contains(write, tc.fail) {
					return refused
				}
				return nil
			}
			annotate(machine, "key")
			result, err := w.end(outcome.Waiting("A", "b").WithAfter(time.Minute), tc.err, func() {
				ready(machine, metav1.ConditionTrue, "Ready", "")
			})
			for _, want := range tc.want {
				if !errors.Is(err, want) {
					t.Errorf("got error %v, want it to say: %v", err, want)
				}
			}
			after := time.Minute
			if len(tc.want) > 0 {
				// controller-runtime requeues with back-off.
				after = 0
			}
			if (err == nil) != (len(tc.want) == 0) || result.RequeueAfter != after {
				t.Errorf("got %v, %v, want a requeue after %s", result, err, after)
			}
			if len(w.writes) != tc.writes {
				t.Errorf("got writes %q, want %d", w.writes, tc.writes)
			}
			if announced := len(w.events.lines) > 0; announced != (tc.fail != `"status"`) {
				t.Errorf("got events %q, want events only for a stored status", w.events.lines)
			}
		})
	}
}

func TestPassNamesAFailedWrite(t *testing.T) {
	for fail, want := range map[string]string{
		`"metadata"`: "writing Metal3Machine machine-0: refused",
		`"status"`:   "writing the status of Metal3Machine machine-0: refused",
	} {
		w := newWorld(t)
		machine := w.begin()
		w.fail = func(write string) error {
			if strings.Contains(write, fail) {
				return errors.New("refused")
			}
			return nil
		}
		annotate(machine, "key")
		if _, err := w.end(outcome.Done(), nil, addresses(machine)); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestPassEvents(t *testing.T) {
	cases := map[string]struct {
		before, after *metav1.Condition
		want          []string
	}{
		"a new condition that is true": {
			after: &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine", Message: "All is well"},
			want:  []string{"Normal|Fine|Reconcile|All is well"},
		},
		"a new condition that is not true": {
			after: &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Waiting", Message: "Waiting"},
		},
		"an event without a message names the condition": {
			after: &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine"},
			want:  []string{"Normal|Fine|Reconcile|Ready is True"},
		},
		"a new condition with a reason of trouble": {
			after: &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Trouble", Message: "It burns"},
			want:  []string{"Warning|Trouble|Reconcile|It burns"},
		},
		"a change of the status": {
			before: &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine"},
			after:  &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Fine", Message: "No more"},
			want:   []string{"Normal|Fine|Reconcile|No more"},
		},
		"a change of the reason": {
			before: &metav1.Condition{Status: metav1.ConditionFalse, Reason: "A"},
			after:  &metav1.Condition{Status: metav1.ConditionFalse, Reason: "B", Message: "b"},
			want:   []string{"Normal|B|Reconcile|b"},
		},
		"a change of the message emits no event": {
			before: &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Trouble", Message: "a"},
			after:  &metav1.Condition{Status: metav1.ConditionFalse, Reason: "Trouble", Message: "b"},
		},
		"a percent sign in the message": {
			after: &metav1.Condition{Status: metav1.ConditionTrue, Reason: "Fine", Message: "100%d"},
			want:  []string{"Normal|Fine|Reconcile|100%d"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			if tc.before != nil {
				machine := w.begin()
				ready(machine, tc.before.Status, tc.before.Reason, tc.before.Message)
				w.mustEnd(nothing)
				w.events.lines = nil
			}
			machine := w.begin()
			w.mustEnd(func() { ready(machine, tc.after.Status, tc.after.Reason, tc.after.Message) })
			if diff := cmp.Diff(tc.want, w.events.lines); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestPassEventsFitIntoTheirLimit(t *testing.T) {
	for _, message := range []string{
		strings.Repeat("x", 2000), "x" + strings.Repeat("ü", 2000), strings.Repeat("語", 2000),
	} {
		w := newWorld(t)
		machine := w.begin()
		w.mustEnd(func() { ready(machine, metav1.ConditionTrue, "Fine", message) })
		note := strings.Split(w.events.lines[0], "|")[3]
		if len(note) > 1024 || len(note) < 990 || !utf8.ValidString(note) {
			t.Errorf("got a note of %d bytes, valid: %t", len(note), utf8.ValidString(note))
		}
	}
}

func TestPassWithoutAnnouncement(t *testing.T) {
	w := newWorld(t)
	machine := w.stored()
	pass := (&flow.Reporter{Client: w.Client, Recorder: w.events}).Begin(machine, nil)
	ready(machine, metav1.ConditionTrue, "Fine", "")
	if _, err := pass.End(context.Background(), outcome.Done(), nil, nothing); err != nil {
		t.Fatal(err)
	}
	if len(w.events.lines) > 0 {
		t.Errorf("got events %q, want none", w.events.lines)
	}
}

func TestMilestones(t *testing.T) {
	announce := flow.Milestones([]string{"QuietType", "QuietReason"}, []string{"Trouble"})
	condition := func(name, reason string, status metav1.ConditionStatus) metav1.Condition {
		return metav1.Condition{Type: name, Reason: reason, Status: status}
	}
	old := condition("A", "Old", metav1.ConditionFalse)
	cases := map[string]struct {
		before *metav1.Condition
		after  metav1.Condition
		want   string
	}{
		"trouble is a warning": {
			after: condition("A", "Trouble", metav1.ConditionFalse), want: corev1.EventTypeWarning,
		},
		"trouble of a quiet type is a warning": {
			after: condition("QuietType", "Trouble", metav1.ConditionFalse), want: corev1.EventTypeWarning,
		},
		"a quiet type is silent":           {before: &old, after: condition("QuietType", "B", metav1.ConditionTrue)},
		"a quiet reason is silent":         {before: &old, after: condition("A", "QuietReason", metav1.ConditionTrue)},
		"a new condition that is not true": {after: condition("A", "B", metav1.ConditionFalse)},
		"a new condition that is unknown":  {after: condition("A", "B", metav1.ConditionUnknown)},
		"a new condition that is true": {
			after: condition("A", "B", metav1.ConditionTrue), want: corev1.EventTypeNormal,
		},
		"an old condition that stays false": {
			before: &old, after: condition("A", "B", metav1.ConditionFalse), want: corev1.EventTypeNormal,
		},
		"an old condition that has become true": {
			before: &old, after: condition("A", "B", metav1.ConditionTrue), want: corev1.EventTypeNormal,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := announce(tc.before, tc.after); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestPassReportsAFailedSave(t *testing.T) {
	refused := apierrors.NewForbidden(infrav1.GroupVersion.WithResource("metal3machines").GroupResource(), "machine-0",
		errors.New("a policy says no"))
	cases := map[string]struct {
		reason  string
		deleted bool
		change  func(*infrav1.Metal3Machine)
	}{
		"Annotation": {"an object that is not being deleted", false, func(m *infrav1.Metal3Machine) { annotate(m, "key") }},
		"Finalizer": {
			"the last write of an object that is being deleted", true,
			func(m *infrav1.Metal3Machine) { controllerutil.RemoveFinalizer(m, ours) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, build.Finalizers(ours))
			if tc.deleted {
				w.deleted()
			}
			machine := w.begin()
			w.fail = func(write string) error {
				if strings.Contains(write, `"metadata"`) {
					return refused
				}
				return nil
			}
			tc.change(machine)
			_, err := w.end(outcome.Done(), nil, func() { ready(machine, metav1.ConditionTrue, "Ready", "") })
			if !apierrors.IsForbidden(err) {
				t.Errorf("%s: got %v, want the refusal", tc.reason, err)
			}
			got := conditions.Get(w.stored(), "Ready")
			if got == nil || got.Status != metav1.ConditionFalse || got.Reason != infrav1.WriteFailedReason ||
				!strings.Contains(got.Message, "a policy says no") {
				t.Errorf("%s: Ready is %+v", tc.reason, got)
			}
			if len(w.events.lines) != 1 || !strings.HasPrefix(w.events.lines[0], "Warning|"+infrav1.WriteFailedReason) {
				t.Errorf("%s: got events %q", tc.reason, w.events.lines)
			}
		})
	}
}

func TestPassEmitsAnEventForARefusedStatus(t *testing.T) {
	machines := infrav1.GroupVersion.WithResource("metal3machines").GroupResource()
	for name, tc := range map[string]struct {
		reason string
		err    error
		want   []string
	}{
		"Refused": {
			"no condition can report it", apierrors.NewForbidden(machines, "machine-0", errors.New("a policy says no")),
			[]string{"Warning|WriteFailed|Reconcile|Writing the status of Metal3Machine machine-0: " +
				`metal3machines.infrastructure.cluster.x-k8s.io "machine-0" is forbidden: a policy says no`},
		},
		"Conflict": {"a retry may succeed", apierrors.NewConflict(machines, "machine-0", errors.New("changed")), nil},
		"NotFound": {"no object, no reader", apierrors.NewNotFound(machines, "machine-0"), nil},
		"Busy":     {"a retry may succeed", apierrors.NewTooManyRequests("slow down", 1), nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			machine := w.begin()
			w.fail = func(string) error { return tc.err }
			// A write conflict is no error.
			if _, err := w.end(outcome.Done(), nil, addresses(machine)); (err == nil) != (name == "Conflict") {
				t.Errorf("%s: got %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, w.events.lines); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}
