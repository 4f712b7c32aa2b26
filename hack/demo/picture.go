package main

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
)

//go:embed picture.svg.tmpl
var pictureTemplate string

// Measures of the picture, in pixels.
const (
	names     = 130 // Width of the names of lanes.
	drawn     = 820 // Width of the lanes.
	margin    = 20  // Right of the lanes.
	top       = 52  // Height of the marks above the lanes.
	thick     = 24  // Height of a bar.
	laneStep  = 32  // Distance of lanes.
	lineStep  = 18  // Distance of lines of text.
	baseline  = 16  // From the top of a bar to the baseline of its text.
	glyph     = 6   // Width of a character in a bar.
	padding   = 5   // Left of a text in a bar.
	markUpper = 12  // Height of every second mark, so that near marks do not cover each other.
	markLower = 32
	columns   = 2 // Columns of notes.
)

// recording is what the demo has observed since clusterctl move began. The picture shows it.
type recording struct {
	Title  string           `json:"title"`
	Began  time.Time        `json:"began"`
	Tracks []timeline.Track `json:"tracks"`
	Marks  []timeline.Mark  `json:"marks"`
}

// since returns the recording from a time on.
func (r recording) since(began time.Time) recording {
	cut := recording{Title: r.Title, Began: began}
	for _, track := range r.Tracks {
		kept := timeline.Track{Name: track.Name}
		for _, span := range track.Spans {
			if span.From.Before(began) {
				span.From = began
			}
			if span.To.After(began) {
				kept.Spans = append(kept.Spans, span)
			}
		}
		cut.Tracks = append(cut.Tracks, kept)
	}
	for _, mark := range r.Marks {
		if mark.At.After(began) {
			cut.Marks = append(cut.Marks, mark)
		}
	}
	return cut
}

type (
	picture struct {
		Title                    string
		Width, Height            int
		Top, Bottom, Axis, Thick int
		Lanes                    []pictureLane
		Ticks, Notes             []pictureText
		Marks                    []pictureMark
	}
	pictureLane struct {
		Name string
		Base int
		Bars []pictureBar
	}
	pictureBar struct {
		X, Width, TextX string
		Y, Base, Colour int
		Text, Hint      string
	}
	pictureText struct {
		X    string
		Base int
		Text string
	}
	pictureMark struct {
		X               string
		Y, Base, Number int
	}
)

// draw returns the recording as an SVG without references.
func (r recording) draw() (string, error) {
	page := timeline.New(r.Title, r.Began, r.Tracks, r.Marks)
	made := picture{
		Title: page.Title, Width: names + drawn + margin,
		Top: top, Thick: thick, Bottom: top + len(page.Lanes)*laneStep,
	}
	made.Axis = made.Bottom + lineStep
	for i, lane := range page.Lanes {
		made.Lanes = append(made.Lanes, drawLane(lane, top+i*laneStep))
	}
	for _, tick := range page.Ticks {
		made.Ticks = append(made.Ticks, pictureText{X: across(tick.Left), Text: tick.Text})
	}
	for i, mark := range page.Marks {
		y := []int{markUpper, markLower}[i%2]
		made.Marks = append(made.Marks, pictureMark{X: across(mark.Left), Y: y, Base: y + 4, Number: i + 1})
	}
	made.Notes = notes(page, made.Axis+2*lineStep)
	made.Height = made.Axis + lineStep
	for _, note := range made.Notes {
		made.Height = max(made.Height, note.Base+lineStep)
	}
	parsed, err := template.New("picture").Parse(pictureTemplate)
	if err != nil {
		return "", fmt.Errorf("parsing the template of the picture: %w", err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, made); err != nil {
		return "", fmt.Errorf("drawing the picture: %w", err)
	}
	return out.String(), nil
}

// drawLane draws the bars of a lane. If the text does not fit in a bar, it is in the tooltip only.
func drawLane(lane timeline.Lane, y int) pictureLane {
	made := pictureLane{Name: lane.Name, Base: y + baseline}
	for _, bar := range lane.Bars {
		text := bar.Text
		if float64(utf8.RuneCountInString(text)*glyph+2*padding) > bar.Width*drawn/100 {
			text = ""
		}
		made.Bars = append(made.Bars, pictureBar{
			X: across(bar.Left), TextX: pixels(names + padding + bar.Left*drawn/100), Width: pixels(bar.Width * drawn / 100),
			Y: y, Base: y + baseline, Colour: bar.Colour, Text: text, Hint: bar.Hint,
		})
	}
	return made
}

// notes lists the marks in columns, and explains the colour of a gap.
func notes(page timeline.Page, y int) []pictureText {
	texts := make([]string, 0, len(page.Marks)+1)
	for i, mark := range page.Marks {
		texts = append(texts, fmt.Sprintf("%d  %s", i+1, mark.Text))
	}
	texts = append(texts, "red: none")
	perColumn := (len(texts) + columns - 1) / columns
	made := make([]pictureText, 0, len(texts))
	for i, text := range texts {
		x := float64(i/perColumn) * (names + drawn) / columns
		made = append(made, pictureText{X: pixels(x), Base: y + i%perColumn*lineStep, Text: text})
	}
	return made
}

// across converts percent of the lanes to pixels.
func across(hundredths float64) string { return pixels(names + hundredths*drawn/100) }

func pixels(x float64) string { return fmt.Sprintf("%.1f", x) }

// redraw writes the picture of a recording.
func redraw(path string, out io.Writer) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var read recording
	if err := json.Unmarshal(content, &read); err != nil {
		return fmt.Errorf("reading the recording %s: %w", path, err)
	}
	drawing, err := read.draw()
	if err != nil {
		return err
	}
	_, err = io.WriteString(out, drawing)
	return err
}
