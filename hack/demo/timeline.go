package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// trackOf is what the witness has seen.
func trackOf(name string, seen []witness.Span) timeline.Track {
	track := timeline.Track{Name: name}
	for _, span := range seen {
		track.Spans = append(track.Spans, timeline.Span{From: span.From, To: span.To, What: span.Who})
	}
	return track
}

// writeTimeline writes the page beside the artefacts.
func (s *story) writeTimeline() error {
	title := fmt.Sprintf("Pivot of %s, %s", clusterName, s.began.Format(time.DateTime))
	tracks := []timeline.Track{
		trackOf("holds the address", calm(s.witness.Held.Since(s.began))),
		trackOf("answers as Ironic", calm(s.witness.Answered.Since(s.began))),
		s.place, s.hosts, s.machines,
	}
	marks := make([]timeline.Mark, 0, len(s.marks))
	for _, done := range s.marks {
		marks = append(marks, timeline.Mark{At: done.at, What: done.what})
	}
	content, err := timeline.New(title, s.began, tracks, marks).Render()
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
