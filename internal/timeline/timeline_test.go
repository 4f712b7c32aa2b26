package timeline_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
)

var began = time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)

func after(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }

func TestNew(t *testing.T) {
	page := timeline.New("A <pivot>", began, []timeline.Track{
		{Name: "holds the address", Spans: []timeline.Span{
			{From: began, To: after(50), What: "management"}, {From: after(50), To: after(51), What: timeline.None},
			{From: after(51), To: after(100), What: "host-0"},
		}},
		{Name: "host-1", Detail: true, Spans: []timeline.Span{{From: began, To: after(100), What: "management"}}},
	}, []timeline.Mark{
		{At: after(25), What: "moved"}, {At: after(50), What: "none", Zoom: "Holder changes"},
		{At: after(51), What: "host-0", Zoom: "Holder changes"},
	})
	want := timeline.Page{
		Title: "A <pivot>",
		Lanes: []timeline.Lane{{Name: "holds the address", Bars: []timeline.Bar{
			{Width: 50, Text: "management", Hint: "management: 03:00:00.0 to 03:00:50.0, 50.0 s", Colour: 1},
			{Left: 50, Width: 1, Text: timeline.None, Hint: "none: 03:00:50.0 to 03:00:51.0, 1.0 s"},
			{Left: 51, Width: 49, Text: "host-0", Hint: "host-0: 03:00:51.0 to 03:01:40.0, 49.0 s", Colour: 2},
		}}},
		Details: []timeline.Lane{{Name: "host-1", Bars: []timeline.Bar{
			{Width: 100, Text: "management", Hint: "management: 03:00:00.0 to 03:01:40.0, 100.0 s", Colour: 1},
		}}},
		Marks: []timeline.Point{
			{Left: 25, Text: "25.0 s: moved"}, {Left: 50, Text: "50.0 s: none"}, {Left: 51, Text: "51.0 s: host-0"},
		},
		Zooms:   []timeline.Zoom{{Name: "Holder changes at 50.0 s", Left: 40, Width: 41}},
		Seconds: 100, Names: 17, Deepest: 20,
		Legend: []timeline.Bar{{Text: "management", Colour: 1}, {Text: "host-0", Colour: 2}},
		Ticks: []timeline.Point{
			{Left: 0, Text: "0s"}, {Left: 10, Text: "10s"}, {Left: 20, Text: "20s"}, {Left: 30, Text: "30s"},
			{Left: 40, Text: "40s"}, {Left: 50, Text: "50s"}, {Left: 60, Text: "1m0s"}, {Left: 70, Text: "1m10s"},
			{Left: 80, Text: "1m20s"}, {Left: 90, Text: "1m30s"},
		},
	}
	if diff := cmp.Diff(want, page); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	content, err := page.Render()
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{
		"<h1>A &lt;pivot&gt;</h1>", "left:51.000%;width:49.000%", "<li>25.0 s: moved</li>", "<summary>Each host</summary>",
		`<button data-left="40.000" data-width="41.000">Holder changes at 50.0 s</button>`, "--names: 17ch",
		`title="host-0: 03:00:51.0 to 03:01:40.0, 49.0 s"`, `<span class="c2">host-0</span>`,
	} {
		if !strings.Contains(content, part) {
			t.Errorf("the page has no %s", part)
		}
	}
	if strings.Contains(content, "http") || strings.Contains(content, "ZgotmplZ") {
		t.Error("the page loads other files, or lacks a value")
	}
}

// TestColours requires a different colour for each phase of a host.
func TestColours(t *testing.T) {
	var spans []timeline.Span
	for i := range len(pivot.Phases()) {
		spans = append(spans, timeline.Span{From: after(i), To: after(i + 1), What: string(pivot.Phases()[i])})
	}
	page := timeline.New("Phases", began, []timeline.Track{{Name: "host", Spans: spans}}, nil)
	content, err := page.Render()
	if err != nil {
		t.Fatal(err)
	}
	used := map[int]string{}
	for _, entry := range page.Legend {
		if other, twice := used[entry.Colour]; twice {
			t.Errorf("%s and %s have one colour", other, entry.Text)
		}
		used[entry.Colour] = entry.Text
		if !strings.Contains(content, fmt.Sprintf(".c%d { background: #", entry.Colour)) {
			t.Errorf("%s has no colour", entry.Text)
		}
	}
	if len(page.Legend) != len(pivot.Phases()) {
		t.Errorf("%d of %d phases are in the legend", len(page.Legend), len(pivot.Phases()))
	}
}

func TestZooms(t *testing.T) {
	for name, tc := range map[string]struct {
		marks []timeline.Mark
		want  []timeline.Zoom
	}{
		"None": {[]timeline.Mark{{At: after(900), What: "armed"}}, nil},
		"Apart": {
			[]timeline.Mark{{At: after(5), Zoom: "a"}, {At: after(500), Zoom: "b"}, {At: after(530), Zoom: "b"}, {At: after(1000), Zoom: "c"}},
			[]timeline.Zoom{
				{Name: "a at 5.0 s", Left: 0, Width: 3.5}, {Name: "b at 500.0 s", Left: 49, Width: 7},
				{Name: "c at 1000.0 s", Left: 99, Width: 1},
			},
		},
	} {
		if diff := cmp.Diff(tc.want, timeline.New(name, began, nil, tc.marks).Zooms); diff != "" {
			t.Errorf("%s: -want +got:\n%s", name, diff)
		}
	}
	if page := timeline.New("Short", began, nil, []timeline.Mark{{At: after(9000), Zoom: "a"}}); page.Deepest != 900 {
		t.Errorf("got a maximum zoom of %d, want 900", page.Deepest)
	}
}

func TestNewWithoutEvents(t *testing.T) {
	page := timeline.New("Empty", time.Now(), nil, nil)
	if _, err := page.Render(); err != nil || len(page.Ticks) != 1 {
		t.Errorf("%v, %d ticks", err, len(page.Ticks))
	}
}

func TestTrack(t *testing.T) {
	objects := timeline.Track{Name: "objects are in"}
	for second, place := range []string{"management", "management", "both", "my-cluster", "my-cluster"} {
		objects.Add(after(second), place)
	}
	want := []timeline.Span{
		{From: began, To: after(2), What: "management"}, {From: after(2), To: after(3), What: "both"},
		{From: after(3), To: after(4), What: "my-cluster"},
	}
	if diff := cmp.Diff(want, objects.Spans); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
