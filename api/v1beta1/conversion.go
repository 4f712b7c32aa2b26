package v1beta1

import (
	stdjson "encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/cluster-api/util/conversion"
)

// DataAnnotation on a v1beta2 object keeps, as JSON, the spec and the status of the v1beta1 object that it was made
// from: each only where v1beta2 cannot express all of it. It is never seen on a v1beta1 object.
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
	// halves are the spec and the status, by their name in the object.
	halves map[string]half
}

// half is the spec or the status of an object in both versions.
type half interface {
	// toHub fills the hub from the spoke, and from the hub that the spoke was made from, if that is kept. It returns
	// the spoke if the hub does not say all of it.
	toHub(kept stdjson.RawMessage) (stdjson.RawMessage, error)

	// toSpoke fills the spoke from the hub, and from the spoke that the hub was made from, if that is kept. It returns
	// whether the spoke says all of the hub.
	toSpoke(kept stdjson.RawMessage) (bool, error)
}

// toHub fills the hub.
func (t twins) toHub() error {
	t.spokeMeta.DeepCopyInto(t.hubMeta)
	kept := takeKept(t.hub, conversion.DataAnnotation)
	delete(t.hubMeta.Annotations, DataAnnotation)
	unsaid := map[string]stdjson.RawMessage{}
	for name, half := range t.halves {
		before := kept[name]
		if kept != nil && before == nil {
			// The hub is kept as a whole, and what is empty is not written.
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

// keepUnsaid puts halves of the spoke into the annotation of the hub. What would make the annotations longer than an
// API server allows is not kept, the status first: no controller could write the hub any more.
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

// toSpoke fills the spoke.
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

// takeKept removes an annotation and returns the halves that it holds, or nil if there is none. One that cannot be read
// counts as none: an object that cannot be converted could not be read, repaired or deleted any more.
func takeKept(object metav1.Object, annotation string) map[string]stdjson.RawMessage {
	var kept map[string]stdjson.RawMessage
	annotations := object.GetAnnotations()
	if err := json.Unmarshal([]byte(annotations[annotation]), &kept); err != nil {
		kept = nil
	}
	delete(annotations, annotation)
	return kept
}

// pair implements half with two pure functions that drop what the other version cannot say.
type pair[S, H any] struct {
	spoke *S
	hub   *H
	rise  func(S) H
	fall  func(H) S
}

// halves are made by this function so that the types follow from the arguments.
func newHalf[S, H any](spoke *S, hub *H, rise func(S) H, fall func(H) S) half {
	return pair[S, H]{spoke: spoke, hub: hub, rise: rise, fall: fall}
}

func (p pair[S, H]) toHub(kept stdjson.RawMessage) (stdjson.RawMessage, error) {
	hub := p.rise(*p.spoke)
	if full, found := read[H](kept); found {
		// An unedited spoke gives the same hub. If the two differ, a user has edited the spoke, and the edit wins.
		untouched := p.rise(p.fall(full))
		var err error
		if hub, err = rebase(untouched, hub, full); err != nil {
			return nil, err
		}
	}
	*p.hub = hub
	same, err := equal(p.fall(hub), *p.spoke)
	if err != nil || same {
		return nil, err
	}
	return json.Marshal(*p.spoke)
}

func (p pair[S, H]) toSpoke(kept stdjson.RawMessage) (bool, error) {
	spoke := p.fall(*p.hub)
	if full, found := read[S](kept); found {
		// An edit of the hub makes what is kept about the spoke worthless: it may contradict the edit. Defaults that
		// admission filled in are no edit.
		untouched := p.fall(p.rise(full))
		var err error
		if spoke, err = rebaseUnlessEdited(untouched, spoke, full); err != nil {
			return false, err
		}
	}
	*p.spoke = spoke
	return equal(p.rise(spoke), *p.hub)
}

// read decodes one half, and tells whether there was one.
func read[T any](data stdjson.RawMessage) (T, bool) {
	var value T
	if len(data) == 0 || json.Unmarshal(data, &value) != nil {
		var none T
		return none, false
	}
	return value, true
}

// nothing is the half that one of the versions does not have.
type nothing struct{}
