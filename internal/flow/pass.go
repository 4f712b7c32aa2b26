package flow

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Object is an API object with conditions.
type Object interface {
	client.Object
	GetConditions() []metav1.Condition
	SetConditions(conditions []metav1.Condition)
}

// Reporter begins the passes of a controller. Reconcilers embed it.
type Reporter struct {
	Client   client.Client
	Recorder events.EventRecorder

	// Memory stores the versions that the passes wrote.
	Memory Memory

	// WatchFilter is the value of the label cluster.x-k8s.io/watch-filter that an object must carry. Empty means any.
	WatchFilter string
}

// Announcement returns the type of the event for a changed condition. Empty means no event. A nil before means that the
// condition is new.
type Announcement func(before *metav1.Condition, after metav1.Condition) (eventType string)

// Pass is one reconcile of one object. It writes the changes of the object since Begin.
type Pass struct {
	reporter *Reporter
	object   Object
	announce Announcement

	// before is the copy at Begin, saved the copy at the last write of metadata and spec.
	before, saved Object

	// stored is true once all changes are written.
	stored bool
}

// Stored returns true if End has written all changes.
func (p *Pass) Stored() bool { return p.stored }

// Begin starts a pass that emits the events of an Announcement. Nil emits none. The caller must own the object: cached
// objects are read-only.
func (r *Reporter) Begin(object Object, announce Announcement) *Pass {
	before := duplicate(object)
	return &Pass{reporter: r, object: object, announce: announce, before: before, saved: before}
}

// Save writes metadata and spec now, for a stage that requires them to be stored. End writes the status.
func (p *Pass) Save(ctx context.Context) error {
	patch, err := p.mainPatch()
	if err != nil || patch == nil {
		return err
	}
	stored, raw := p.answer(), client.RawPatch(types.MergePatchType, patch)
	if err := p.reporter.Client.Patch(ctx, stored, raw); err != nil {
		return fmt.Errorf("writing %s %s: %w", kindOf(p.object), p.object.GetName(), err)
	}
	p.adopt(stored, p.object)
	p.saved = duplicate(p.object)
	return nil
}

// End calls report to set the conditions, writes the changes and emits events. It returns the error of the reconcile
// joined with those of the writes. A write conflict is not an error: End requeues the object.
func (p *Pass) End(ctx context.Context, reached outcome.Outcome, err error, report func()) (ctrl.Result, error) {
	writeErr := p.write(ctx, report)
	p.stored = writeErr == nil
	failure := withoutConflicts(writeErr)
	switch {
	case writeErr != nil && failure == nil:
		return result(reached.WithAfter(Soonest(reached.After, ConflictDelay)), err)
	case p.isGone(writeErr):
		return result(reached, err)
	default:
		return result(reached, err, failure)
	}
}

// write writes metadata and spec, then the status, because conditions contain the generation of the first write. On a
// deletion it writes the status first: the removal of the last finalizer deletes the object.
func (p *Pass) write(ctx context.Context, report func()) error {
	var saveErr error
	deleting := !p.object.GetDeletionTimestamp().IsZero()
	if !deleting {
		if saveErr = p.Save(ctx); apierrors.IsConflict(saveErr) {
			return saveErr
		}
	}
	report()
	shortenMessages(p.object)
	p.setFailed(infrav1.WriteFailedReason, saveErr)
	if err := p.saveStatus(ctx); err != nil {
		return errors.Join(saveErr, err)
	}
	if deleting {
		if saveErr = p.Save(ctx); saveErr != nil && !apierrors.IsConflict(saveErr) && !p.isGone(saveErr) {
			p.object.SetFinalizers(p.saved.GetFinalizers())
			p.setFailed(infrav1.WriteFailedReason, saveErr)
			saveErr = errors.Join(saveErr, p.saveStatus(ctx))
		}
	}
	p.emit()
	return saveErr
}

// setFailed reports an error outside the stages in Ready. It ignores a nil error.
func (p *Pass) setFailed(reason string, err error) {
	if err == nil {
		return
	}
	conditions.Set(p.object, metav1.Condition{
		Type:   clusterv1.ReadyCondition,
		Status: failedStatus(p.object, clusterv1.ReadyCondition, err, true),
		Reason: reason, Message: describe(err),
	})
}

// answer returns an object for the answer to a write. The API server then sends only the metadata, which costs less
// than the whole object.
func (p *Pass) answer() *metav1.PartialObjectMetadata {
	kind, _ := p.reporter.Client.GroupVersionKindFor(p.object) // The write of an unknown kind fails.
	stored := &metav1.PartialObjectMetadata{}
	stored.Namespace, stored.Name = p.object.GetNamespace(), p.object.GetName()
	stored.SetGroupVersionKind(kind)
	return stored
}

func (p *Pass) isGone(err error) bool {
	return !p.object.GetDeletionTimestamp().IsZero() && apierrors.IsNotFound(err)
}

func (p *Pass) saveStatus(ctx context.Context) error {
	if !p.object.GetDeletionTimestamp().IsZero() && len(p.object.GetFinalizers()) == 0 {
		// The next write deletes the object. No client would read this status.
		return nil
	}
	patch, err := p.difference(field(p.before, "Status"), field(p.object, "Status"))
	if err != nil || patch == nil {
		return err
	}
	stored, raw := p.answer(), client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":%s}`, patch))
	if err := p.reporter.Client.Status().Patch(ctx, stored, raw); err != nil {
		err = fmt.Errorf("writing the status of %s %s: %w", kindOf(p.object), p.object.GetName(), err)
		p.emitRefusal(err)
		return err
	}
	p.adopt(stored, p.saved)
	return nil
}

// emitRefusal emits an event for a refused status, which no condition can report. The retries count in one Event.
func (p *Pass) emitRefusal(err error) {
	if p.announce != nil && outcome.IsRefused(err) {
		p.reporter.Recorder.Eventf(p.object, nil, corev1.EventTypeWarning, infrav1.WriteFailedReason, "Reconcile", "%s",
			describe(err))
	}
}

// adopt sets the version that a write returned. If another client changed finalizers or ownerReferences, adopt keeps
// the older version: the next patch of that list then conflicts instead of reverting the change.
func (p *Pass) adopt(stored, written client.Object) {
	p.reporter.Memory.wrote(stored)
	p.object.SetGeneration(stored.GetGeneration())
	if sameLists(stored, written) {
		p.object.SetResourceVersion(stored.GetResourceVersion())
	}
}

// content is the part of an object that mainPatch compares. The API server sets the other metadata.
type content struct {
	metav1.ObjectMeta `json:"metadata"`
	Spec              any `json:"spec,omitempty"`
}

func contentOf(object Object) content {
	return content{Spec: field(object, "Spec"), ObjectMeta: metav1.ObjectMeta{
		Labels: object.GetLabels(), Annotations: object.GetAnnotations(),
		Finalizers: object.GetFinalizers(), OwnerReferences: object.GetOwnerReferences(),
	}}
}

// mainPatch returns the merge patch of metadata and spec, or nil if there is no change.
//
// A merge patch replaces a list as a whole. Finalizers and ownerReferences have several writers, so a patch of them
// contains the resource version.
func (p *Pass) mainPatch() ([]byte, error) {
	was, is := contentOf(p.saved), contentOf(p.object)
	if same(was.Spec, is.Spec) {
		if sameMetadata(p.saved, p.object) {
			return nil, nil
		}
		was.Spec, is.Spec = nil, nil
	}
	if !sameLists(p.saved, p.object) {
		is.ResourceVersion = p.object.GetResourceVersion()
	}
	return p.difference(&was, &is)
}

func duplicate(object Object) Object {
	copied, _ := object.DeepCopyObject().(Object) // A copy has the same type.
	return copied
}

func (p *Pass) emit() {
	if p.announce == nil {
		return
	}
	for _, condition := range p.object.GetConditions() {
		before := conditions.Get(p.before, condition.Type)
		if before != nil && before.Status == condition.Status && before.Reason == condition.Reason {
			continue
		}
		if eventType := p.announce(before, condition); eventType != "" {
			p.reporter.Recorder.Eventf(p.object, nil, eventType, condition.Reason, "Reconcile", "%s", note(condition))
		}
	}
}

// noteLimit is the maximum length of the note of an event in bytes. The API server rejects a note of over 1024 bytes,
// and the recorder would drop the event.
const noteLimit = 1000

// recorder shortens notes.
type recorder struct{ events.EventRecorder }

// NewRecorder returns a recorder of events that shortens notes, such as the refusal of a webhook, to what the API
// server accepts. Every controller requires one.
func NewRecorder(to events.EventRecorder) events.EventRecorder { return recorder{to} }

// Eventf implements events.EventRecorder.
//
//nolint:revive // The interface defines the number of arguments.
func (r recorder) Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any) {
	text := shorten(fmt.Sprintf(note, args...), noteLimit)
	r.EventRecorder.Eventf(regarding, related, eventType, reason, action, "%s", text)
}

// note returns the text of an event. The API server rejects an empty text.
func note(condition metav1.Condition) string {
	if condition.Message != "" {
		return condition.Message
	}
	return condition.Type + " is " + string(condition.Status)
}

// field returns a pointer to a field of an object.
func field(object Object, name string) any {
	return reflect.ValueOf(object).Elem().FieldByName(name).Addr().Interface()
}

// same returns true for semantically equal values. The first comparison is faster, and most values do not change.
func same(a, b any) bool { return reflect.DeepEqual(a, b) || equality.Semantic.DeepEqual(a, b) }

// difference returns the merge patch between the structs of two pointers, or nil if there is no change. The comparison
// costs less than the JSON encoding, and most passes change nothing.
func (p *Pass) difference(was, is any) ([]byte, error) {
	if same(was, is) {
		return nil, nil
	}
	patch, err := json.Marshal(is)
	if err == nil && !reflect.ValueOf(was).Elem().IsZero() {
		old, _ := json.Marshal(was) // CreateMergePatch returns an error for no JSON.
		patch, err = jsonpatch.CreateMergePatch(old, patch)
	}
	if err != nil {
		return nil, fmt.Errorf("comparing %s %s: %w", kindOf(p.object), p.object.GetName(), err)
	}
	if string(patch) == "{}" {
		return nil, nil
	}
	return patch, nil
}

// Warnings announces failed reads and writes, and the reasons of trouble. Nothing else is an event.
func Warnings(trouble ...string) Announcement {
	trouble = append([]string{infrav1.WriteFailedReason, infrav1.ReadFailedReason}, trouble...)
	return func(_ *metav1.Condition, after metav1.Condition) string {
		if slices.Contains(trouble, after.Reason) {
			return corev1.EventTypeWarning
		}
		return ""
	}
}

// Milestones returns an Announcement: a Warning for every reason in trouble, a Normal event for every condition that
// becomes true and for every change of an existing condition. It skips the condition types and reasons in quiet.
func Milestones(quiet, trouble []string) Announcement {
	warns := Warnings(trouble...)
	return func(before *metav1.Condition, after metav1.Condition) string {
		switch {
		case warns(before, after) != "":
			return corev1.EventTypeWarning
		case slices.Contains(quiet, after.Type), slices.Contains(quiet, after.Reason):
			return ""
		case before == nil && after.Status != metav1.ConditionTrue:
			return ""
		default:
			return corev1.EventTypeNormal
		}
	}
}
