package witness

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestJournal(t *testing.T) {
	noon := time.Date(2027, time.January, 2, 12, 0, 0, 0, time.UTC)
	at := func(tenths int) time.Time { return noon.Add(time.Duration(tenths) * 100 * time.Millisecond) }
	journal := &Journal{}
	if got := journal.Last(); got != None {
		t.Errorf("before the first request: %q, want %q", got, None)
	}
	for i, names := range [][]string{{"a"}, {"a"}, {}, {}, {}, {"b"}, {"b", "a"}, {"a", "b"}, {"b"}} {
		journal.add(at(i), names...)
	}
	want := []Span{
		{at(0), at(2), "a"}, {at(2), at(5), None}, {at(5), at(6), "b"}, {at(6), at(8), "a and b"}, {at(8), at(8), "b"},
	}
	if diff := cmp.Diff(want, journal.Since(noon)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[3:], journal.Since(at(6).Add(time.Millisecond)), cmp.Transformer("from",
		func(span Span) []any { return []any{span.To, span.Who} })); diff != "" {
		t.Error(diff)
	}
	spans := journal.Since(at(1))
	if got := Longest(spans, Span.Shared); got != 200*time.Millisecond {
		t.Errorf("two answered for %s, want 200ms", got)
	}
	if got := Longest(spans, func(s Span) bool { return s.Who == "a" }); got != 100*time.Millisecond {
		t.Errorf("from the second request on, a answered for %s, want 100ms", got)
	}
	if got := journal.Last(); got != "b" {
		t.Errorf("last answered %q, want b", got)
	}
}
