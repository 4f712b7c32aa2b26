package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
)

// TestPicture compares the picture in the README with its recording.
func TestPicture(t *testing.T) {
	folder := filepath.Join("..", "..", "docs", "pictures")
	want, err := os.ReadFile(filepath.Join(folder, "pivot.svg"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := redraw(filepath.Join(folder, "pivot.json"), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got.String()); diff != "" {
		t.Errorf("run: go run ./hack/demo picture docs/pictures/pivot.json > docs/pictures/pivot.svg\n-want +got:\n%s", diff)
	}
}

// TestDraw draws names with characters that XML reserves.
func TestDraw(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	drawing, err := recording{
		Title: "A <pivot>", Began: began,
		Tracks: []timeline.Track{{Name: "holds & answers", Spans: []timeline.Span{
			{From: began, To: after(50), What: "management"}, {From: after(50), To: after(51), What: timeline.None},
			{From: after(51), To: after(100), What: "host-0"},
		}}},
		Marks: []timeline.Mark{{At: after(25), What: "moved"}, {At: after(51), What: `"host-0" > "management"`}},
	}.draw()
	if err != nil {
		t.Fatal(err)
	}
	decoder := xml.NewDecoder(strings.NewReader(drawing))
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, drawing)
		}
	}
	for _, part := range []string{
		`<title>A &lt;pivot&gt;</title>`, `>holds &amp; answers</text>`, `class="bar">management</text>`,
		// The second bar begins in the middle of the lane and is too narrow for a text.
		`<rect x="540.0" y="52" width="8.2" height="24" class="c0"/></g>`,
		`>1  25.0 s: moved</text>`, `>red: none</text>`,
	} {
		if !strings.Contains(drawing, part) {
			t.Errorf("the picture lacks %s:\n%s", part, drawing)
		}
	}
}

func TestSince(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	after := func(seconds int) time.Time { return began.Add(time.Duration(seconds) * time.Second) }
	got := recording{
		Title: "all", Began: began,
		Tracks: []timeline.Track{{Name: "holds", Spans: []timeline.Span{
			{From: began, To: after(5), What: "a"}, {From: after(5), To: after(20), What: "b"}, {From: after(20), To: after(30), What: "c"},
		}}},
		Marks: []timeline.Mark{{At: after(9), What: "early"}, {At: after(11), What: "late"}},
	}.since(after(10))
	want := recording{
		Title: "all", Began: after(10),
		Tracks: []timeline.Track{{Name: "holds", Spans: []timeline.Span{
			{From: after(10), To: after(20), What: "b"}, {From: after(20), To: after(30), What: "c"},
		}}},
		Marks: []timeline.Mark{{At: after(11), What: "late"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
