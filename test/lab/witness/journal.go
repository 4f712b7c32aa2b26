package witness

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// None stands for a time without an answer.
const None = "none"

// separator joins the names of machines that answered the same request.
const separator = " and "

// Span is a period with the same answer.
type Span struct {
	// From is the time of the first request with this answer. To is the time of the first request with the next answer.
	// In the last span, To is the time of the last request.
	From, To time.Time

	// Who has the names that answered, in alphabetical order, or None.
	Who string
}

// Length returns the duration of the span.
func (s Span) Length() time.Duration { return s.To.Sub(s.From) }

// Shared reports whether several machines answered.
func (s Span) Shared() bool { return strings.Contains(s.Who, separator) }

func (s Span) String() string {
	return fmt.Sprintf("%s  %8s  %s", s.From.Format("15:04:05.000"), s.Length().Round(time.Millisecond), s.Who)
}

// Journal records who answered when. It is safe for concurrent use.
type Journal struct {
	mutex sync.Mutex
	spans []Span
}

// add records the names that answered the request sent at a time.
func (j *Journal) add(at time.Time, names ...string) {
	slices.Sort(names)
	who := strings.Join(slices.Compact(names), separator)
	if who == "" {
		who = None
	}
	j.mutex.Lock()
	defer j.mutex.Unlock()
	last := len(j.spans) - 1
	if last >= 0 {
		j.spans[last].To = at
		if j.spans[last].Who == who {
			return
		}
	}
	j.spans = append(j.spans, Span{From: at, To: at, Who: who})
}

// Last returns the answer to the last request. It is None before the first request.
func (j *Journal) Last() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if len(j.spans) == 0 {
		return None
	}
	return j.spans[len(j.spans)-1].Who
}

// Since returns the spans that end after began. The first one is cut to begin then.
func (j *Journal) Since(began time.Time) []Span {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	var found []Span
	for _, span := range j.spans {
		if span.To.Before(began) {
			continue
		}
		if span.From.Before(began) {
			span.From = began
		}
		found = append(found, span)
	}
	return found
}

// Longest returns the length of the longest span that fits.
func Longest(spans []Span, fits func(Span) bool) time.Duration {
	var longest time.Duration
	for _, span := range spans {
		if fits(span) {
			longest = max(longest, span.Length())
		}
	}
	return longest
}
