package witness

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// None is the value for a time without an answer.
const None = "none"

// separator stands between several that answered at once.
const separator = " and "

// Span is a time in which the answer was the same.
type Span struct {
	// From is when the question was asked whose answer was the first of this kind, To when the first of the next kind
	// was asked. To of the last one is when its last question was asked.
	From, To time.Time

	// Who answered: a name, names in alphabetical order, or None.
	Who string
}

// Length is how long it was.
func (s Span) Length() time.Duration { return s.To.Sub(s.From) }

// Shared says whether more than one answered.
func (s Span) Shared() bool { return strings.Contains(s.Who, separator) }

// String is a line for people.
func (s Span) String() string {
	return fmt.Sprintf("%s  %8s  %s", s.From.Format("15:04:05.000"), s.Length().Round(time.Millisecond), s.Who)
}

// Journal remembers who answered when. It may be used at the same time.
type Journal struct {
	mutex sync.Mutex
	spans []Span
}

// add notes who answered a question that was asked at a time.
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

// Last is who answered the last question. It is None before the first.
func (j *Journal) Last() string {
	j.mutex.Lock()
	defer j.mutex.Unlock()
	if len(j.spans) == 0 {
		return None
	}
	return j.spans[len(j.spans)-1].Who
}

// Since are the spans of a time and after it. What began before begins with it.
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

// Longest is how long the longest span was that fits.
func Longest(spans []Span, fits func(Span) bool) time.Duration {
	var longest time.Duration
	for _, span := range spans {
		if fits(span) {
			longest = max(longest, span.Length())
		}
	}
	return longest
}
