package term_test

import (
	"testing"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/term"
)

// TestDecide tests each row of the decision table for each state of the process.
func TestDecide(t *testing.T) {
	t.Parallel()
	never := term.Observation{}
	kept := term.Observation{Held: true, Kept: true, Begun: true}
	left := term.Observation{Held: true, Begun: true, Away: term.Grace - 1}
	with := func(base term.Observation, change func(*term.Observation)) term.Observation {
		change(&base)
		return base
	}
	over := func(o *term.Observation) { o.Over = true }
	confirmed := func(o *term.Observation) { o.Confirmed = true }
	late := func(o *term.Observation) { o.Away = term.Grace }
	hung := func(o *term.Observation) { o.Hung = true }
	unknown := func(o *term.Observation) { o.Begun = false }
	for name, test := range map[string]struct {
		reason                 string
		seen                   term.Observation
		running, frozen, ended term.Action
	}{
		"never here": {"a standby runs until it ends", never, term.Leave, term.Leave, term.Exit},
		"never here, hung": {
			"a standby has no database to keep", with(never, hung), term.Replace, term.Replace, term.Exit,
		},
		"here, hung":      {"the guard hands the VIP over", with(kept, hung), term.Leave, term.Thaw, term.Restart},
		"left, hung":      {"it may return", with(left, hung), term.Freeze, term.Leave, term.Leave},
		"here":            {"an Ironic that crashes during its term restarts with its database", kept, term.Leave, term.Thaw, term.Restart},
		"here, no record": {"the database of an unknown term is not kept", with(kept, unknown), term.Leave, term.Thaw, term.Exit},
		"here, another record": {
			"the VIP never left, so no other node can have held it", with(kept, over), term.Leave, term.Thaw, term.Restart,
		},
		"left":               {"it may return", left, term.Freeze, term.Leave, term.Leave},
		"left, no record":    {"the term never began", with(left, unknown), term.Kill, term.Kill, term.Kill},
		"left, over":         {"another node was heard or could have been", with(left, over), term.Kill, term.Kill, term.Kill},
		"left for too long":  {"a new database serves sooner", with(left, late), term.Kill, term.Kill, term.Kill},
		"back":               {"no other node held the VIP", with(left, confirmed), term.Thaw, term.Thaw, term.Restart},
		"back, but too late": {"the gate does not wait longer than Grace", with(with(left, confirmed), late), term.Kill, term.Kill, term.Kill},
		"back, but over":     {"the guard decides", with(with(left, confirmed), over), term.Kill, term.Kill, term.Kill},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for process, want := range map[term.Process]term.Action{
				term.Running: test.running, term.Frozen: test.frozen, term.Ended: test.ended,
			} {
				seen := test.seen
				seen.Process = process
				if got := term.Decide(seen); got != want {
					t.Errorf("%s: %s Ironic: got %s, want %s", test.reason, process, got, want)
				}
			}
		})
	}
}

// TestBook changes the VIP of a node, and checks its terms.
func TestBook(t *testing.T) {
	t.Parallel()
	begin := time.Unix(1000, 0)
	const margin = time.Second
	held := term.Sight{Holding: true, Stamp: 7, Well: true, Margin: margin}
	away := term.Sight{Well: true, Margin: margin}
	back := term.Sight{Holding: true, Stamp: 9, Well: true, Margin: margin}
	// late is a VIP with a lease that was renewed too late.
	late := term.Sight{Holding: true, Stamp: 9, Well: true, Margin: margin, Doubt: true}
	heard := func(seen term.Sight, at time.Duration) term.Sight {
		seen.MayHaveHeld = begin.Add(at)
		return seen
	}
	unwell := func(seen term.Sight) term.Sight {
		seen.Well = false
		return seen
	}
	type step struct {
		after time.Duration
		seen  term.Sight
	}
	first := begin.UnixNano()
	for name, test := range map[string]struct {
		reason string
		steps  []step
		want   term.Record
	}{
		"begins":      {"the VIP is here and Ironic is well", nil, term.Record{Term: first, Stamp: 7}},
		"continues":   {"the VIP stays", []step{{time.Hour, unwell(held)}}, term.Record{Term: first, Stamp: 7}},
		"away":        {"the VIP may return", []step{{time.Second, away}}, term.Record{Term: first, Stamp: 7}},
		"back":        {"no other node was heard", []step{{time.Second, away}, {2 * time.Second, back}}, term.Record{Term: first, Stamp: 9}},
		"back unseen": {"the guard missed that it left", []step{{time.Second, back}}, term.Record{Term: first, Stamp: 9}},
		"late":        {"another holder may not have been heard yet", []step{{5 * time.Second, late}}, term.Record{Term: first, Stamp: 7}},
		"late, quiet": {"no other node was heard", []step{{5 * time.Second, late}, {6 * time.Second, back}}, term.Record{Term: first, Stamp: 9}},
		"late, another holder": {
			"no term begins before the election ends", []step{{5 * time.Second, heard(late, 5*time.Second)}}, term.Record{},
		},
		"another holder": {
			"another node was heard before the VIP left this node",
			[]step{{5 * time.Second, held}, {6 * time.Second, heard(away, 4001*time.Millisecond)}}, term.Record{},
		},
		"another holder long ago": {
			"the previous holder was heard before",
			[]step{{5 * time.Second, held}, {6 * time.Second, heard(away, 4*time.Second)}}, term.Record{Term: first, Stamp: 7},
		},
		"another holder, back": {
			"a new term begins",
			[]step{{5 * time.Second, heard(back, 5*time.Second)}}, term.Record{Term: first + int64(5*time.Second), Stamp: 9},
		},
		"not well":      {"a new Ironic may be healthy", []step{{time.Second, unwell(away)}}, term.Record{}},
		"back, unwell":  {"no term begins before Ironic answers", []step{{time.Second, unwell(back)}}, term.Record{}},
		"just in grace": {"the VIP may return", []step{{term.Grace - 1, away}}, term.Record{Term: first, Stamp: 7}},
		"grace is over": {"a new database serves sooner", []step{{term.Grace, away}}, term.Record{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var book term.Book
			book.Enter(begin, held)
			for _, step := range test.steps {
				book.Enter(begin.Add(step.after), step.seen)
			}
			if got := book.Record(); got != test.want {
				t.Errorf("%s: got %v, want %v", test.reason, got, test.want)
			}
		})
	}
}

func TestPending(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	held := term.Sight{Holding: true, Stamp: 7, Well: true}
	var none term.Book
	if none.Pending(term.Sight{}) {
		t.Error("no term waits for the VIP")
	}
	book := term.Resume(term.Record{Term: 1, Stamp: 7}, now)
	if book.Pending(held) || !book.Pending(term.Sight{}) || !book.Pending(term.Sight{Holding: true, Stamp: 9}) {
		t.Error("a term waits until its VIP is here")
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	all := term.Record{Term: 12, Stamp: 7, Patience: 3300 * time.Millisecond, Failing: term.HungAfter}
	for text, want := range map[string]term.Record{
		all.String():  all,
		"12 7 8 9":    {Term: 12, Stamp: 7, Patience: 8 * time.Millisecond, Failing: 9 * time.Millisecond},
		"12 7 8 9 10": {Term: 12, Stamp: 7, Patience: 8 * time.Millisecond, Failing: 9 * time.Millisecond},
		"0 0 0 1":     {Failing: time.Millisecond},
		"":            {}, "12": {}, "12 ": {}, "12 7": {}, "12 7 8": {}, "0 0\n": {},
		"x 7 8 9": {}, "12 x 8 9": {}, "12 7 x 9": {}, "12 7 8 x": {}, "12 -1 8 9": {}, "12 7 -8 9": {}, "12 7 8 -9": {},
		"9223372036854775808 7 8 9": {}, "12 4294967296 8 9": {}, "12 7 4294967296 9": {}, "12 7 8 4294967296": {},
	} {
		if got := term.Parse(text); got != want {
			t.Errorf("%q: got %v, want %v", text, got, want)
		}
	}
}
