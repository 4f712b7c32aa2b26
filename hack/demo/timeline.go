package main

import (
	_ "embed"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

//go:embed timeline.html.tmpl
var timelinePage string

// timeline is what the page shows. Places are in hundredths of the whole.
type timeline struct {
	Title string
	Lanes []lane
	Marks []point
	Ticks []point
}

// lane is one row of bars.
type lane struct {
	Name string
	Bars []bar
}

// bar is a time in which something was so.
type bar struct {
	Left, Width float64
	Text, Hint  string
	// Colour is a number of the palette. Zero is for nobody.
	Colour int
}

// point is a moment.
type point struct {
	Left float64
	Text string
}

// track is what was so of one thing, from when to when.
type track struct {
	name  string
	spans []witness.Span
}

// add says how it is now.
func (t *track) add(at time.Time, how string) {
	last := len(t.spans) - 1
	if last >= 0 {
		t.spans[last].To = at
	}
	if last < 0 || t.spans[last].Who != how {
		t.spans = append(t.spans, witness.Span{From: at, To: at, Who: how})
	}
}

// newTimeline lays out what was seen and what came about.
func newTimeline(title string, began time.Time, tracks []track, marks []mark) timeline {
	ended := began.Add(time.Second)
	for _, track := range tracks {
		for _, span := range track.spans {
			if span.To.After(ended) {
				ended = span.To
			}
		}
	}
	for _, done := range marks {
		if done.at.After(ended) {
			ended = done.at
		}
	}
	at := func(moment time.Time) float64 {
		return 100 * float64(moment.Sub(began)) / float64(ended.Sub(began))
	}
	colours := map[string]int{}
	page := timeline{Title: title}
	for _, track := range tracks {
		page.Lanes = append(page.Lanes, lane{track.name, bars(track.spans, at, colours)})
	}
	for _, done := range marks {
		text := fmt.Sprintf("%.1f s: %s", done.at.Sub(began).Seconds(), done.what)
		page.Marks = append(page.Marks, point{at(done.at), text})
	}
	for tick := began; tick.Before(ended); tick = tick.Add(tickEvery(ended.Sub(began))) {
		page.Ticks = append(page.Ticks, point{at(tick), tick.Sub(began).String()})
	}
	return page
}

// tickEvery leaves at most a dozen ticks.
func tickEvery(whole time.Duration) time.Duration {
	for _, step := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute} {
		if whole/step <= 12 {
			return step
		}
	}
	return 30 * time.Minute
}

func bars(spans []witness.Span, at func(time.Time) float64, colours map[string]int) []bar {
	made := make([]bar, 0, len(spans))
	for _, span := range spans {
		if _, known := colours[span.Who]; !known && span.Who != witness.Nobody {
			colours[span.Who] = len(colours)%palette + 1
		}
		made = append(made, bar{
			Left: at(span.From), Width: at(span.To) - at(span.From), Text: span.Who, Hint: span.String(),
			Colour: colours[span.Who],
		})
	}
	return made
}

// palette is how many colours the page has.
const palette = 6

// render makes a page that needs nothing else.
func (t timeline) render() (string, error) {
	page, err := template.New("timeline").Parse(timelinePage)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	if err := page.Execute(&out, t); err != nil {
		return "", err
	}
	return out.String(), nil
}

// writeTimeline writes the page beside the artefacts.
func (s *story) writeTimeline() error {
	title := fmt.Sprintf("Pivot of %s, %s", clusterName, s.began.Format(time.DateTime))
	tracks := []track{
		{"holds the address", calm(s.witness.Held.Since(s.began))},
		{"answers as Ironic", calm(s.witness.Answered.Since(s.began))},
		s.place, s.hosts, s.machines,
	}
	content, err := newTimeline(title, s.began, tracks, s.marks).render()
	if err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	path := filepath.Join(filepath.Dir(s.lab.ArtefactsFolder()), s.size.name+"-timeline.html")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		return err
	}
	s.screen.say("the timeline is in %s", path)
	return nil
}
