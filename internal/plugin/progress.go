package plugin

import (
	"fmt"
	"io"
	"strings"
	"time"
)

const (
	// barWidth is how many characters the bar has.
	barWidth = 24

	// plainEvery is the interval between two lines about a stage for a writer that is not a terminal.
	plainEvery = 10 * time.Second

	// clearLine moves to the begin of the line of a terminal and clears the line.
	clearLine = "\r\x1b[2K"
)

// progress prints the stages of a command: a bar on a terminal, lines elsewhere. A failed write does not stop the
// command.
type progress struct {
	writer   io.Writer
	terminal bool
	now      func() time.Time

	stage, unit string
	done, total int
	detail      string
	began, told time.Time
	drawn       bool
}

func newProgress(writer io.Writer) *progress {
	return &progress{writer: writer, terminal: isTerminal(writer), now: time.Now}
}

// begin begins a stage, and ends the previous one. For the same stage, it sets the total.
func (p *progress) begin(stage, unit string, total int) {
	if stage == p.stage {
		p.total = total
		return
	}
	p.end()
	p.stage, p.unit, p.done, p.total, p.detail = stage, unit, 0, total, ""
	p.began, p.told = p.now(), p.now()
	if !p.terminal {
		_, _ = fmt.Fprintf(p.writer, "%s...\n", stage)
	}
	p.draw()
}

// at prints the progress of the stage, and the last or the awaited object.
func (p *progress) at(done int, detail string) {
	p.done, p.detail = done, detail
	p.draw()
}

// end ends the stage, and prints a line about it.
func (p *progress) end() {
	if p.stage == "" {
		return
	}
	p.clear()
	text := fmt.Sprintf("%s: done in %s", p.stage, seconds(p.now().Sub(p.began)))
	if p.total > 0 {
		text = fmt.Sprintf("%s: %d of %d %s in %s", p.stage, p.done, p.total, p.unit, seconds(p.now().Sub(p.began)))
	}
	_, _ = fmt.Fprintln(p.writer, text)
	p.stage = ""
}

// say prints a line that stays.
func (p *progress) say(format string, values ...any) error {
	p.clear()
	err := say(p.writer, format, values...)
	p.draw()
	return err
}

func (p *progress) clear() {
	if p.drawn {
		_, _ = io.WriteString(p.writer, clearLine)
		p.drawn = false
	}
}

func (p *progress) draw() {
	switch {
	case p.stage == "":
	case p.terminal:
		_, _ = io.WriteString(p.writer, clearLine+p.line())
		p.drawn = true
	case p.total > 0 && p.now().Sub(p.told) >= plainEvery:
		p.told = p.now()
		_, _ = fmt.Fprintln(p.writer, p.line())
	}
}

// line returns the stage with its bar, counts, rate and remaining time.
func (p *progress) line() string {
	if p.total <= 0 {
		return fmt.Sprintf("%-11s %s", p.stage, seconds(p.now().Sub(p.began)))
	}
	full := min(barWidth, barWidth*p.done/p.total)
	bar := strings.Repeat("#", full) + strings.Repeat(".", barWidth-full)
	text := fmt.Sprintf("%-11s [%s] %d/%d %s", p.stage, bar, p.done, p.total, p.unit)
	if passed := p.now().Sub(p.began).Seconds(); passed > 0 && p.done > 0 {
		rate := float64(p.done) / passed
		text += fmt.Sprintf("  %.1f/s  %.0fs left", rate, float64(max(0, p.total-p.done))/rate)
	}
	if p.detail != "" {
		text += "  " + printable(p.detail)
	}
	return text
}
