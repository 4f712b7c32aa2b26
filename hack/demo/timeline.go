package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/timeline"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/witness"
)

// trackOf returns a track of the observations of the witness. Ironic answers with its clusterID and the name of its
// node.
func trackOf(name string, seen []witness.Span) timeline.Track {
	track := timeline.Track{Name: name}
	for _, span := range seen {
		who := strings.TrimPrefix(span.Who, lab.IronicClusterID+"-")
		track.Spans = append(track.Spans, timeline.Span{From: span.From, To: span.To, What: who})
	}
	return track
}

// writeTimeline writes the page, the recording since the move and its picture to the folder of the artefacts.
func (s *story) writeTimeline() error {
	all := recording{
		Title: fmt.Sprintf("Pivot of %s, %s", clusterName, s.began.Format(time.DateTime)), Began: s.began,
		Tracks: []timeline.Track{
			trackOf("holds the VIP", calm(s.witness.Held.Since(s.began))),
			trackOf("answers as Ironic", calm(s.witness.Answered.Since(s.began))),
			s.place, s.hosts, s.machines,
		},
	}
	for _, done := range s.marks {
		all.Marks = append(all.Marks, timeline.Mark{At: done.at, What: done.what})
	}
	page, err := timeline.New(all.Title, all.Began, all.Tracks, all.Marks).Render()
	if err != nil {
		return fmt.Errorf("drawing the timeline: %w", err)
	}
	moved := all.since(s.moved)
	drawing, err := moved.draw()
	if err != nil {
		return err
	}
	recorded, err := json.MarshalIndent(moved, "", "  ")
	if err != nil {
		return err
	}
	base := filepath.Join(filepath.Dir(s.lab.ArtefactsFolder()), s.size.name+"-timeline")
	if err := os.MkdirAll(filepath.Dir(base), 0o755); err != nil {
		return err
	}
	for suffix, content := range map[string]string{".html": page, ".svg": drawing, ".json": string(recorded) + "\n"} {
		if err := os.WriteFile(base+suffix, []byte(content), 0o644); err != nil {
			return err
		}
	}
	s.screen.say("the timeline is in %s.html, its picture in %s.svg", base, base)
	return nil
}
