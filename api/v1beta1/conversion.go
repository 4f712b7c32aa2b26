package v1beta1

import (
	stdjson "encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cluster-api/util/conversion"
)

// DataAnnotation on a v1beta2 object is the spec and status, as JSON, of the v1beta1 object from which it was
// converted. Each is present only if v1beta2 cannot express all of it. A v1beta1 object never has the annotation.
const DataAnnotation = "infrastructure.cluster.x-k8s.io/v1beta1-data"

// versions is one object in both versions. The spoke is v1beta1, the hub is v1beta2.
//
//	                 DataAnnotation on the hub: data of the spoke only
//	                ┌──────────────────────────────────────────────────────►
//	spoke ──toHub──► hub ──toSpoke──► spoke
//	                ◄──────────────────────────────────────────────────────┘
//	                 conversion.DataAnnotation on the spoke: data of the hub only
type versions struct {
	spoke, hub         metav1.Object
	spokeMeta, hubMeta *metav1.ObjectMeta
	// parts are spec and status, by their name in the object.
	parts map[string]part
}

// part is the spec or the status of an object in both versions.
type part interface {
	// toHub sets the hub from the spoke, and from the saved hub from which the spoke was converted. It returns the spoke
	// if the hub cannot express all of it.
	toHub(saved stdjson.RawMessage) (stdjson.RawMessage, error)

	// toSpoke sets the spoke from the hub, and from the saved spoke from which the hub was converted. It returns true if
	// the spoke expresses all of the hub.
	toSpoke(saved stdjson.RawMessage) (bool, error)
}

func (t versions) toHub() error {
	t.spokeMeta.DeepCopyInto(t.hubMeta)
	saved := takeSaved(t.hub, conversion.DataAnnotation)
	delete(t.hubMeta.Annotations, DataAnnotation)
	lossy := map[string]stdjson.RawMessage{}
	for name, part := range t.parts {
		before := saved[name]
		if saved != nil && before == nil {
			// The annotation has the whole hub, without empty fields.
			before = stdjson.RawMessage("{}")
		}
		spoke, err := part.toHub(before)
		if err != nil {
			return fmt.Errorf("converting %s from v1beta1 to v1beta2: %w", name, err)
		}
		if spoke != nil {
			lossy[name] = spoke
		}
	}
	return saveLossy(t.hubMeta, lossy)
}

// saveLossy writes the parts of the spoke that the hub cannot express into the annotation of the hub. If the
// annotations would exceed the limit of the API server, it drops the status, then the spec: otherwise no controller
// could write the hub.
func saveLossy(hub *metav1.ObjectMeta, lossy map[string]stdjson.RawMessage) error {
	for _, name := range []string{"", "status", "spec"} {
		delete(lossy, name)
		if len(lossy) == 0 {
			return nil
		}
		data, err := json.Marshal(lossy)
		if err != nil {
			return fmt.Errorf("writing the annotation %s: %w", DataAnnotation, err)
		}
		metav1.SetMetaDataAnnotation(hub, DataAnnotation, string(data))
		if validation.ValidateAnnotationsSize(hub.Annotations) == nil {
			return nil
		}
		delete(hub.Annotations, DataAnnotation)
	}
	return nil
}

func (t versions) toSpoke() error {
	t.hubMeta.DeepCopyInto(t.spokeMeta)
	saved := takeSaved(t.spoke, DataAnnotation)
	delete(t.spokeMeta.Annotations, conversion.DataAnnotation)
	complete := true
	for name, part := range t.parts {
		whole, err := part.toSpoke(saved[name])
		if err != nil {
			return fmt.Errorf("converting %s from v1beta2 to v1beta1: %w", name, err)
		}
		complete = complete && whole
	}
	if complete {
		return nil
	}
	return t.saveHub()
}

// saveHub writes the hub into the annotation of the spoke. If the annotations would exceed the limit of the API server,
// it drops the status: otherwise no client of v1beta1 could write the object. The controllers set the status again.
func (t versions) saveHub() error {
	if err := conversion.MarshalData(t.hub, t.spoke); err != nil {
		return fmt.Errorf("writing the annotation %s: %w", conversion.DataAnnotation, err)
	}
	if validation.ValidateAnnotationsSize(t.spokeMeta.Annotations) == nil {
		return nil
	}
	whole := takeSaved(t.spoke, conversion.DataAnnotation)
	delete(whole, "status")
	data, err := json.Marshal(whole)
	if err != nil {
		return fmt.Errorf("writing the annotation %s: %w", conversion.DataAnnotation, err)
	}
	metav1.SetMetaDataAnnotation(t.spokeMeta, conversion.DataAnnotation, string(data))
	return nil
}

// takeSaved removes an annotation and returns its parts, nil without an annotation. It ignores an annotation
// that cannot be parsed: an object that cannot be converted could not be read, repaired or deleted.
func takeSaved(object metav1.Object, annotation string) map[string]stdjson.RawMessage {
	var saved map[string]stdjson.RawMessage
	annotations := object.GetAnnotations()
	if err := json.Unmarshal([]byte(annotations[annotation]), &saved); err != nil {
		saved = nil
	}
	delete(annotations, annotation)
	return saved
}

// pair implements part with two pure functions that drop the fields that the other version does not have.
type pair[S, H any] struct {
	spoke   *S
	hub     *H
	hubOf   func(S) H
	spokeOf func(H) S
}

// newPart returns a pair. The compiler infers its types from the arguments.
func newPart[S, H any](spoke *S, hub *H, hubOf func(S) H, spokeOf func(H) S) part {
	return pair[S, H]{spoke: spoke, hub: hub, hubOf: hubOf, spokeOf: spokeOf}
}

func (p pair[S, H]) toHub(saved stdjson.RawMessage) (stdjson.RawMessage, error) {
	hub := p.hubOf(*p.spoke)
	if full, found := read[H](saved); found {
		// An unedited spoke gives the same hub. If the two differ, a user has edited the spoke, and the edit takes
		// precedence.
		untouched := p.hubOf(p.spokeOf(full))
		var err error
		if hub, err = rebase(untouched, hub, full); err != nil {
			return nil, err
		}
	}
	*p.hub = hub
	same, err := equal(p.spokeOf(hub), *p.spoke)
	if err != nil || same {
		return nil, err
	}
	return json.Marshal(*p.spoke)
}

func (p pair[S, H]) toSpoke(saved stdjson.RawMessage) (bool, error) {
	spoke := p.spokeOf(*p.hub)
	if full, found := read[S](saved); found {
		// After an edit of the hub, the saved spoke is dropped, because it may contradict the edit. Defaults that
		// admission has set are no edit.
		untouched := p.spokeOf(p.hubOf(full))
		var err error
		if spoke, err = rebaseUnlessEdited(untouched, spoke, full); err != nil {
			return false, err
		}
	}
	*p.spoke = spoke
	return equal(p.hubOf(spoke), *p.hub)
}

// read decodes one part. It returns false if there is none.
func read[T any](data stdjson.RawMessage) (T, bool) {
	var value T
	if len(data) == 0 || json.Unmarshal(data, &value) != nil {
		var none T
		return none, false
	}
	return value, true
}

// nothing is the type of a part that is missing in one version.
type nothing struct{}
