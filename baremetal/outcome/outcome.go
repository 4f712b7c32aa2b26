// Package outcome has the results of a decision besides an error: done, waiting, blocked.
//
// Waiting is not an error: another controller must act, the message names it, and a watch or a timer requeues the
// object. Blocked means that the user must edit an object: a requeue before that would change nothing.
package outcome

import "time"

type kind int

const (
	done kind = iota
	waiting
	blocked
)

// Outcome is the result of one phase. The zero value means done.
type Outcome struct {
	kind kind

	// Reason is the reason of the condition that reports the outcome. Empty when done.
	Reason string

	// Message names the object that is waited for, or the field that the user must change. Empty when done.
	Message string

	// After is the time to the next reconcile if no event announces the change. Zero means that an event announces it.
	After time.Duration
}

// Done returns the outcome of a completed phase.
func Done() Outcome { return Outcome{} }

// Waiting returns the outcome of a phase that waits for another controller. A watch event requeues the object.
func Waiting(reason, message string) Outcome {
	return Outcome{kind: waiting, Reason: reason, Message: message}
}

// Blocked returns the outcome of a phase that waits for the user.
func Blocked(reason, message string) Outcome {
	return Outcome{kind: blocked, Reason: reason, Message: message}
}

// WithAfter returns the outcome with the time to the next reconcile, for changes without an event.
func (o Outcome) WithAfter(after time.Duration) Outcome {
	o.After = after
	return o
}

// IsDone returns true if the next phase may run.
func (o Outcome) IsDone() bool { return o.kind == done }

// IsBlocked returns true if the user must act.
func (o Outcome) IsBlocked() bool { return o.kind == blocked }
