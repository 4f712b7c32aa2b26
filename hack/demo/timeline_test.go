package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

func TestTimeline(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	held := []witness.Span{
		{From: began, To: after(50), Who: "management"}, {From: after(50), To: after(51), Who: witness.Nobody},
		{From: after(51), To: after(100), Who: "host-0"},
	}
	answered := []witness.Span{{From: began, To: after(100), Who: "management"}}
	page := newTimeline("A <pivot>", began, []track{{"holds the address", held}, {"answers as Ironic", answered}}, []mark{{what: "moved", took: time.Second, at: after(25)}})
	want := timeline{
		Title: "A <pivot>",
		Lanes: []lane{
			{"holds the address", []bar{
				{0, 50, "management", held[0].String(), 1}, {50, 1, witness.Nobody, held[1].String(), 0},
				{51, 49, "host-0", held[2].String(), 2},
			}},
			{"answers as Ironic", []bar{{0, 100, "management", answered[0].String(), 1}}},
		},
		Marks: []point{{25, "25.0 s: moved"}},
		Ticks: []point{
			{0, "0s"}, {10, "10s"}, {20, "20s"}, {30, "30s"}, {40, "40s"}, {50, "50s"}, {60, "1m0s"}, {70, "1m10s"},
			{80, "1m20s"}, {90, "1m30s"},
		},
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	content, err := page.render()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"<h1>A &lt;pivot&gt;</h1>", `left:51.000%;width:49.000%`, "<li>25.0 s: moved</li>"} {
		if !strings.Contains(content, part) {
			t.Errorf("the page has no %s", part)
		}
	}
	if strings.Contains(content, "http") || strings.Contains(content, "ZgotmplZ") {
		t.Error("the page needs something else, or hides a value")
	}
}

func TestTimelineOfNothing(t *testing.T) {
	page := newTimeline("Empty", time.Now(), nil, nil)
	if _, err := page.render(); err != nil || len(page.Ticks) != 1 {
		t.Errorf("%v, %d ticks", err, len(page.Ticks))
	}
}

func TestTrack(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	objects := track{name: "objects are in"}
	for second, place := range []string{"management", "management", "both", "my-cluster", "my-cluster"} {
		objects.add(after(second), place)
	}
	want := []witness.Span{
		{From: began, To: after(2), Who: "management"}, {From: after(2), To: after(3), Who: "both"},
		{From: after(3), To: after(4), Who: "my-cluster"},
	}
	if diff := cmp.Diff(want, objects.spans); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestTally(t *testing.T) {
	if got := tally("available", "provisioned", "available", ""); got != "1 new, 2 available, 1 provisioned" {
		t.Errorf("got %q", got)
	}
	if got := tally(); got != "none" {
		t.Errorf("got %q", got)
	}
}

func TestCalm(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	after := func(tenths int) time.Time { return began.Add(time.Duration(tenths) * 100 * time.Millisecond) }
	got := calm([]witness.Span{
		{From: began, To: after(10), Who: "a"}, {From: after(10), To: after(11), Who: witness.Nobody},
		{From: after(11), To: after(20), Who: "a"}, {From: after(20), To: after(30), Who: witness.Nobody},
		{From: after(30), To: after(40), Who: "b"}, {From: after(40), To: after(41), Who: "a and b"},
	})
	want := []witness.Span{
		{From: began, To: after(20), Who: "a"}, {From: after(20), To: after(30), Who: witness.Nobody},
		{From: after(30), To: after(40), Who: "b"}, {From: after(40), To: after(41), Who: "a and b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
