// Package rhythm lets what happens again and again happen at the same moments. To wake a sleeping processor up, and to
// fall asleep again, costs more than the little that the guard has to do each time.
package rhythm

import "time"

// Rhythm is a row of moments with the same time between them. The zero value is not ready: use New.
type Rhythm struct {
	began time.Time
	beat  time.Duration
}

// New returns a rhythm that begins now. The beat is the time between its moments.
func New(beat time.Duration) Rhythm {
	return Rhythm{began: time.Now(), beat: beat}
}

// Until returns for how long to wait for the time, or for the last moment of the rhythm before it: what is due after a
// number of beats comes at most one beat early and never late. It is not positive for a time that is over.
func (r Rhythm) Until(at time.Time) time.Duration {
	return time.Until(r.began.Add(at.Sub(r.began).Truncate(r.beat)))
}

// After is Until for the time after the interval from now.
func (r Rhythm) After(interval time.Duration) time.Duration {
	return r.Until(time.Now().Add(interval))
}
