package flow

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

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
