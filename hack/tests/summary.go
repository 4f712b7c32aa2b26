package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// shown is the number of names of skipped tests for a reason, and excerptLines of lines of a message.
const shown, excerptLines = 3, 12

// summary is the data of the summary.
type summary struct {
	tier           string
	started        time.Time
	took           time.Duration
	steps          []*result
	notes, omitted []string
}

func (s *summary) failures() int {
	total := 0
	for _, step := range s.steps {
		total += step.failures()
	}
	return total
}

// print prints passed and failed tests, and omitted tests with the reason.
func (s *summary) print(out io.Writer) {
	fmt.Fprintf(out, "\n==> summary of %s, after %s\n", s.tier, s.took.Round(time.Second))
	passed, skipped := 0, map[string][]string{}
	for _, step := range s.steps {
		fmt.Fprintf(out, "  %-40s %8s\n", step.step.name, step.took.Round(time.Second))
		passed += step.passed
		for _, one := range step.skipped {
			skipped[one.reason] = append(skipped[one.reason], one.name)
		}
	}
	for _, note := range slices.Concat(s.notes, s.omitted) {
		fmt.Fprintf(out, "  NOTE %s\n", note)
	}
	count := 0
	for _, reason := range slices.Sorted(maps.Keys(skipped)) {
		names := skipped[reason]
		count += len(names)
		fmt.Fprintf(out, "  SKIPPED %d: %s\n", len(names), reason)
		for _, name := range names[:min(shown, len(names))] {
			fmt.Fprintf(out, "    %s\n", name)
		}
		if more := len(names) - shown; more > 0 {
			fmt.Fprintf(out, "    and %d more\n", more)
		}
	}
	s.printFailures(out)
	fmt.Fprintf(out, "%d passed, %d failed, %d skipped\n", passed, s.failures(), count)
}

// printFailures prints failed tests with the first lines of their messages. They are near the end of the output,
// because some systems keep only the end of long logs.
func (s *summary) printFailures(out io.Writer) {
	for _, step := range s.steps {
		for _, one := range step.failed {
			fmt.Fprintf(out, "  FAILED %s\n", one.name)
			lines := strings.FieldsFunc(one.message, func(r rune) bool { return r == '\n' })
			for _, line := range lines[:min(excerptLines, len(lines))] {
				fmt.Fprintf(out, "    %.300s\n", line)
			}
			if more := len(lines) - excerptLines; more > 0 {
				fmt.Fprintf(out, "    and %d more lines, above\n", more)
			}
		}
		if step.commandFailed {
			fmt.Fprintf(out, "  FAILED %s\n", step.step.name)
		}
	}
}
