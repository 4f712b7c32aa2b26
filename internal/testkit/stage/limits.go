package stage

import (
	"time"

	. "github.com/onsi/gomega"
)

const (
	// Patience is the time limit of a story for an event. It is far below the ten minutes after which a manager
	// reconciles all objects without an event.
	Patience = time.Minute

	// Quiet is the time in which a story requires that nothing happens.
	Quiet = time.Second

	// pollEvery is the time between two reads of a story.
	pollEvery = 50 * time.Millisecond
)

// SetLimits sets the limits of Eventually and Consistently for a suite.
func SetLimits() {
	SetDefaultEventuallyTimeout(Patience)
	SetDefaultEventuallyPollingInterval(pollEvery)
	SetDefaultConsistentlyDuration(Quiet)
}
