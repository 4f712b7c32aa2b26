package main

import (
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// screen prints lines and objects. On a terminal, the table of objects is below the lines and is redrawn when it
// changes. Elsewhere each object that changed is a line.
type screen struct {
	mutex   sync.Mutex
	out     io.Writer
	started time.Time
	// width is the maximum length of a row of the table. Zero means that there is no table.
	width int
	// shown is the last text of each object.
	shown map[string]string
	// drawn is the number of rows of the table on the screen.
	drawn int
}

func newScreen(out *os.File) *screen {
	made := &screen{out: out, started: time.Now()}
	if descriptor := int(out.Fd()); term.IsTerminal(descriptor) {
		if width, _, err := term.GetSize(descriptor); err == nil {
			made.width = width
		}
	}
	return made
}

// say prints one line with the time since the start.
func (s *screen) say(format string, values ...any) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.erase()
	s.line(fmt.Sprintf(format, values...))
	s.draw()
}

func (s *screen) line(text string) {
	fmt.Fprintf(s.out, "[%6.1fs] %s\n", time.Since(s.started).Seconds(), text)
}

// show prints the current objects.
func (s *screen) show(objects map[string]string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if maps.Equal(s.shown, objects) {
		return
	}
	s.erase()
	if s.width == 0 {
		s.changes(objects)
	}
	s.shown = objects
	s.draw()
}

// changes prints the objects that differ from their last text.
func (s *screen) changes(objects map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(objects)) {
		if before, known := s.shown[name]; !known || before != objects[name] {
			s.line(row(name, objects[name]))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.shown)) {
		if _, still := objects[name]; !still {
			s.line(row(name, "gone"))
		}
	}
}

func row(name, text string) string { return fmt.Sprintf("  %-46s %s", name, text) }

// clear removes the table and keeps the lines.
func (s *screen) clear() {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.erase()
	s.shown = nil
}

// erase moves the cursor to the start of the table and clears the screen from there.
func (s *screen) erase() {
	if s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA\x1b[J", s.drawn)
		s.drawn = 0
	}
}

func (s *screen) draw() {
	if s.width == 0 {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.shown)) {
		text := []rune(strings.ReplaceAll(row(name, s.shown[name]), "\n", " "))
		fmt.Fprintln(s.out, string(text[:min(len(text), s.width-1)]))
		s.drawn++
	}
}
