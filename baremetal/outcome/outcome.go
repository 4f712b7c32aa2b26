// Package outcome holds the three answers that a decision can have besides an error: done, waiting, blocked.
//
// Waiting is not an error: another controller has to act, the message names it, and a watch or a timer requeues the
// object. Blocked means that the user has to edit an object; a requeue before that would change nothing.
package outcome

import "time"

type kind int

const (
	done kind = iota
	waiting
	blocked
)

// Outcome is the answer of one phase. The zero value means done.
type Outcome struct {
	kind kind

	// Reason is the reason of the condition that reports the outcome. Empty when done.
	Reason string

	// Message says whom or what the object waits for, or what the user has to change. Empty when done.
	Message string

	// After is when to look again where no event announces the change. Zero means that an event will come.
	After time.Duration
}

// Done says that the phase has nothing left to do.
func Done() Outcome { return Outcome{} }

// Waiting says that another controller has to act first. A watch event requeues the object.
func Waiting(reason, message string) Outcome {
	return Outcome{kind: waiting, Reason: reason, Message: message}
}

// Blocked says that the user has to edit something first.
func Blocked(reason, message string) Outcome {
	return Outcome{kind: blocked, Reason: reason, Message: message}
}

// WithAfter returns the outcome with a time to look again, for the cases that no event announces.
func (o Outcome) WithAfter(after time.Duration) Outcome {
	o.After = after
	return o
}

// IsDone says whether the next phase may run.
func (o Outcome) IsDone() bool { return o.kind == done }

// IsBlocked says whether the user has to act.
func (o Outcome) IsBlocked() bool { return o.kind == blocked }
