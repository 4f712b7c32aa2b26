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

// twins are the same object in both versions. The spoke is v1beta1, the hub is v1beta2.
//
//	                 DataAnnotation on the hub: what only the spoke can say
//	                ┌──────────────────────────────────────────────────────►
//	spoke ──toHub──► hub ──toSpoke──► spoke
//	                ◄──────────────────────────────────────────────────────┘
//	                 conversion.DataAnnotation on the spoke: what only the hub can say
type twins struct {
	spoke, hub         metav1.Object
	spokeMeta, hubMeta *metav1.ObjectMeta
	// halves are spec and status, by their name in the object.
	halves map[string]half
}

// half is the spec or the status of an object in both versions.
type half interface {
	// toHub sets the hub from the spoke, and from the hub from which the spoke was converted, if that is kept. It
	// returns the spoke if the hub cannot express all of it.
	toHub(kept stdjson.RawMessage) (stdjson.RawMessage, error)

	// toSpoke sets the spoke from the hub, and from the spoke from which the hub was converted, if that is kept. It
	// returns true if the spoke expresses all of the hub.
	toSpoke(kept stdjson.RawMessage) (bool, error)
}

// toHub sets the hub.
func (t twins) toHub() error {
	t.spokeMeta.DeepCopyInto(t.hubMeta)
	kept := takeKept(t.hub, conversion.DataAnnotation)
	delete(t.hubMeta.Annotations, DataAnnotation)
	unsaid := map[string]stdjson.RawMessage{}
	for name, half := range t.halves {
		before := kept[name]
		if kept != nil && before == nil {
			// The whole hub is kept, without empty fields.
			before = stdjson.RawMessage("{}")
		}
		spoke, err := half.toHub(before)
		if err != nil {
			return fmt.Errorf("converting %s from v1beta1 to v1beta2: %w", name, err)
		}
		if spoke != nil {
			unsaid[name] = spoke
		}
	}
	return keepUnsaid(t.hubMeta, unsaid)
}

// keepUnsaid writes halves of the spoke into the annotation of the hub. If the annotations would exceed the limit of
// the API server, it drops the status, then the spec: otherwise no controller could write the hub.
func keepUnsaid(hub *metav1.ObjectMeta, unsaid map[string]stdjson.RawMessage) error {
	for _, name := range []string{"", "status", "spec"} {
		delete(unsaid, name)
		if len(unsaid) == 0 {
			return nil
		}
		data, err := json.Marshal(unsaid)
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

// toSpoke sets the spoke.
func (t twins) toSpoke() error {
	t.hubMeta.DeepCopyInto(t.spokeMeta)
	kept := takeKept(t.spoke, DataAnnotation)
	delete(t.spokeMeta.Annotations, conversion.DataAnnotation)
	said := true
	for name, half := range t.halves {
		whole, err := half.toSpoke(kept[name])
		if err != nil {
			return fmt.Errorf("converting %s from v1beta2 to v1beta1: %w", name, err)
		}
		said = said && whole
	}
	if said {
		return nil
	}
	if err := conversion.MarshalData(t.hub, t.spoke); err != nil {
		return fmt.Errorf("writing the annotation %s: %w", conversion.DataAnnotation, err)
	}
	return nil
}

// takeKept removes an annotation and returns its halves, or nil if there is no annotation. It ignores an annotation
// that cannot be parsed: an object that cannot be converted could not be read, repaired or deleted.
func takeKept(object metav1.Object, annotation string) map[string]stdjson.RawMessage {
	var kept map[string]stdjson.RawMessage
	annotations := object.GetAnnotations()
	if err := json.Unmarshal([]byte(annotations[annotation]), &kept); err != nil {
		kept = nil
	}
	delete(annotations, annotation)
	return kept
}

// pair implements half with two pure functions that drop the fields that the other version does not have.
type pair[S, H any] struct {
	spoke   *S
	hub     *H
	hubOf   func(S) H
	spokeOf func(H) S
}

// newHalf returns a pair. The compiler infers its types from the arguments.
func newHalf[S, H any](spoke *S, hub *H, hubOf func(S) H, spokeOf func(H) S) half {
	return pair[S, H]{spoke: spoke, hub: hub, hubOf: hubOf, spokeOf: spokeOf}
}

func (p pair[S, H]) toHub(kept stdjson.RawMessage) (stdjson.RawMessage, error) {
	hub := p.hubOf(*p.spoke)
	if full, found := read[H](kept); found {
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

func (p pair[S, H]) toSpoke(kept stdjson.RawMessage) (bool, error) {
	spoke := p.spokeOf(*p.hub)
	if full, found := read[S](kept); found {
		// After an edit of the hub, the kept spoke is dropped, because it may contradict the edit. Defaults that
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

// read decodes one half. It returns false if there is none.
func read[T any](data stdjson.RawMessage) (T, bool) {
	var value T
	if len(data) == 0 || json.Unmarshal(data, &value) != nil {
		var none T
		return none, false
	}
	return value, true
}

// nothing is the type of a half that one of the versions does not have.
type nothing struct{}
