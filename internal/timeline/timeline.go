// Package timeline renders an HTML page with the states of objects over time. The page is one file without references.
package timeline

import (
	_ "embed"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
	"unicode/utf8"
)

//go:embed page.html.tmpl
var pageTemplate string

const (
	// None is the text of a span without a holder. It has its own colour.
	None = "none"

	// palette is the number of colours for other texts: one for each phase of a host.
	palette = 12

	// before and after are the margins of a zoom around its marks.
	before, after = 10 * time.Second, 30 * time.Second

	// deepest is the least maximum zoom of a page.
	deepest = 20

	// ticks is the maximum number of ticks of the axis.
	ticks = 12
)

// Span is a time with one state.
type Span struct {
	From, To time.Time
	What     string
}

// Track is the states of one object, in the order of time.
type Track struct {
	Name  string
	Spans []Span

	// Detail hides the lane of the track until the reader opens the details.
	Detail bool
}

// Add adds the state from a time on.
func (t *Track) Add(at time.Time, how string) {
	last := len(t.Spans) - 1
	if last >= 0 {
		t.Spans[last].To = at
	}
	if last < 0 || t.Spans[last].What != how {
		t.Spans = append(t.Spans, Span{From: at, To: at, What: how})
	}
}

// Mark is an event.
type Mark struct {
	At   time.Time
	What string

	// Zoom is the text of the button that zooms in on the mark. Empty for a mark without a button. Marks are in the
	// order of time.
	Zoom string
}

// Page is the data of the page. Positions are in percent of the width.
type Page struct {
	Title   string
	Lanes   []Lane
	Details []Lane
	Marks   []Point
	Ticks   []Point
	Legend  []Bar
	Zooms   []Zoom

	// Notes describe what the page does not show.
	Notes []string

	// Seconds is the duration, Names the length of the longest name in characters, and Deepest the highest zoom.
	Seconds float64
	Names   int
	Deepest int
}

// Zoom is a part of the page with a button.
type Zoom struct {
	Name        string
	Left, Width float64
}

// Lane is one row of bars.
type Lane struct {
	Name string
	Bars []Bar
}

// Bar is a span on the page.
type Bar struct {
	Left, Width float64
	Text, Hint  string

	// Colour is a number of the palette. Zero is for None.
	Colour int
}

// Point is a mark or a tick on the page.
type Point struct {
	Left float64
	Text string
}

// New returns a page with tracks and marks from a time on.
func New(title string, began time.Time, tracks []Track, marks []Mark) Page {
	ended := end(began, tracks, marks)
	place := scale{began: began, whole: ended.Sub(began), colours: map[string]int{}}
	page := Page{Title: title, Seconds: place.whole.Seconds(), Deepest: deepest}
	for _, track := range tracks {
		made := Lane{Name: track.Name, Bars: place.bars(track.Spans, &page)}
		page.Names = max(page.Names, utf8.RuneCountInString(track.Name))
		if track.Detail {
			page.Details = append(page.Details, made)
		} else {
			page.Lanes = append(page.Lanes, made)
		}
	}
	for _, mark := range marks {
		text := fmt.Sprintf("%.1f s: %s", mark.At.Sub(began).Seconds(), mark.What)
		page.Marks = append(page.Marks, Point{place.at(mark.At), text})
	}
	page.Zooms = place.zooms(ended, marks)
	for _, zoom := range page.Zooms {
		page.Deepest = max(page.Deepest, int(math.Ceil(100/zoom.Width))) //nolint:mnd // Hundredths.
	}
	for tick := began; tick.Before(ended); tick = tick.Add(tickEvery(place.whole)) {
		page.Ticks = append(page.Ticks, Point{place.at(tick), tick.Sub(began).String()})
	}
	return page
}

// zooms returns the parts of the page with the marks of a zoom. Marks with overlapping parts share one part.
func (s scale) zooms(ended time.Time, marks []Mark) []Zoom {
	type part struct {
		name     string
		from, to time.Time
	}
	var parts []part
	for _, mark := range marks {
		last := len(parts) - 1
		from, to := mark.At.Add(-before), mark.At.Add(after)
		switch {
		case mark.Zoom == "":
		case last >= 0 && !from.After(parts[last].to):
			parts[last].to = to
		default:
			name := fmt.Sprintf("%s at %.1f s", mark.Zoom, mark.At.Sub(s.began).Seconds())
			parts = append(parts, part{name, from, to})
		}
	}
	var zooms []Zoom
	for _, each := range parts {
		if each.from.Before(s.began) {
			each.from = s.began
		}
		if each.to.After(ended) {
			each.to = ended
		}
		zooms = append(zooms, Zoom{Name: each.name, Left: s.at(each.from), Width: s.at(each.to) - s.at(each.from)})
	}
	return zooms
}

// end returns the last time of all tracks and marks.
func end(began time.Time, tracks []Track, marks []Mark) time.Time {
	ended := began.Add(time.Second)
	later := func(at time.Time) {
		if at.After(ended) {
			ended = at
		}
	}
	for _, track := range tracks {
		for _, span := range track.Spans {
			later(span.To)
		}
	}
	for _, mark := range marks {
		later(mark.At)
	}
	return ended
}

// tickEvery returns the time between ticks, with at most a dozen ticks.
func tickEvery(whole time.Duration) time.Duration {
	for _, step := range []time.Duration{10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute} {
		if whole/step <= ticks {
			return step
		}
	}
	return 30 * time.Minute
}

// scale converts times to positions, and assigns colours.
type scale struct {
	began   time.Time
	whole   time.Duration
	colours map[string]int
}

func (s scale) at(moment time.Time) float64 {
	return 100 * float64(moment.Sub(s.began)) / float64(s.whole) //nolint:mnd // Hundredths.
}

// bars returns the bars of a lane, and adds new colours to the legend of the page.
func (s scale) bars(spans []Span, page *Page) []Bar {
	made := make([]Bar, 0, len(spans))
	for _, span := range spans {
		if _, known := s.colours[span.What]; !known && span.What != None {
			s.colours[span.What] = len(s.colours)%palette + 1
			page.Legend = append(page.Legend, Bar{Text: span.What, Colour: s.colours[span.What]})
		}
		hint := fmt.Sprintf("%s: %s to %s, %.1f s", span.What, span.From.UTC().Format("15:04:05.0"),
			span.To.UTC().Format("15:04:05.0"), span.To.Sub(span.From).Seconds())
		made = append(made, Bar{
			Left: s.at(span.From), Width: s.at(span.To) - s.at(span.From), Text: span.What, Hint: hint,
			Colour: s.colours[span.What],
		})
	}
	return made
}

// Render returns the page as HTML.
func (p Page) Render() (string, error) {
	page, err := template.New("timeline").Parse(pageTemplate)
	if err != nil {
		return "", fmt.Errorf("parsing the page of the timeline: %w", err)
	}
	var out strings.Builder
	if err := page.Execute(&out, p); err != nil {
		return "", fmt.Errorf("drawing the timeline: %w", err)
	}
	return out.String(), nil
}
