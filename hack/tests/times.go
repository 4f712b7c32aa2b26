package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// longest is the number of packages and specs of each tier in the table.
const longest = 12

// times are the durations of the last run of a tier.
type times struct {
	Finished time.Time   `json:"finished"`
	Seconds  float64     `json:"seconds"`
	Steps    []stepTimes `json:"steps"`
}

// stepTimes are the durations of one step. Processor is the processor time of all its processes.
type stepTimes struct {
	timed
	Processor  float64 `json:"processor"`
	APIServers int     `json:"apiServers"`
	Packages   []timed `json:"packages"`
	Specs      []timed `json:"specs"`
}

func (s *summary) times() times {
	measured := times{Finished: time.Now(), Seconds: s.took.Seconds()}
	for _, step := range s.steps {
		measured.Steps = append(measured.Steps, stepTimes{
			timed: timed{step.step.name, step.took.Seconds()}, Processor: step.processor.Seconds(), APIServers: step.apiServers,
			Packages: step.packages, Specs: step.specs,
		})
	}
	return measured
}

// of returns the duration of the tests of a package, or zero if unknown.
func (t times) of(path string) float64 {
	for _, step := range t.Steps {
		for _, found := range step.Packages {
			if found.Name == path {
				return found.Seconds
			}
		}
	}
	return 0
}

func timesFile(tier string) (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "tests", tier+".json"), nil
}

// loadTimes returns the times of the last run of a tier, or none.
func loadTimes(tier string) (times, error) {
	file, err := timesFile(tier)
	if err != nil {
		return times{}, err
	}
	var stored times
	err = readJSON(file, &stored)
	var notJSON *json.SyntaxError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return times{}, nil
	case errors.As(err, &notJSON):
		// A run that was killed while it wrote, or a full disk. The next run writes the times again.
		fmt.Printf("%v: the times of the last run do not count\n", err)
		return times{}, nil
	}
	return stored, err
}

func (t times) store(tier string) error {
	file, err := timesFile(tier)
	if err != nil {
		return err
	}
	content, err := json.MarshalIndent(t, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	part := file + ".part"
	if err := os.WriteFile(part, content, 0o644); err != nil {
		return err
	}
	return os.Rename(part, file)
}

func readJSON(file string, into any) error {
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	return nil
}

// printTimes prints the last run of each tier as a table of Markdown.
func printTimes(out io.Writer) error {
	known := false
	for _, tier := range []string{"checks", "test", "e2e", "nightly"} {
		measured, err := loadTimes(tier)
		if err != nil {
			return err
		}
		if len(measured.Steps) == 0 {
			continue
		}
		known = true
		measured.print(out, tier)
	}
	if !known {
		return errors.New("no tier has passed on this machine: run make test first")
	}
	return nil
}

func (t times) print(out io.Writer, tier string) {
	computing := 0.0
	for _, step := range t.Steps {
		computing += step.Processor
	}
	fmt.Fprintf(out, "\n%s, finished %s: %.0f s on %d processors, which waited for %.0f %% of it:\n\n", tier,
		t.Finished.Format(time.DateTime), t.Seconds, runtime.NumCPU(),
		100*max(0, 1-computing/(t.Seconds*float64(runtime.NumCPU()))))
	table := tabwriter.NewWriter(out, 0, 0, 1, ' ', 0)
	row := func(cells ...string) { fmt.Fprintf(table, "| %s\t|\n", strings.Join(cells, "\t| ")) }
	row("What", "Seconds", "Processor seconds", "API servers")
	row("---", "---", "---", "---")
	for _, step := range t.Steps {
		row("**"+step.Name+"**", fmt.Sprintf("%.0f", step.Seconds), fmt.Sprintf("%.0f", step.Processor),
			strconv.Itoa(step.APIServers))
		for _, kind := range [][]timed{step.Packages, step.Specs} {
			for _, one := range slowest(kind) {
				row(one.Name, fmt.Sprintf("%.1f", one.Seconds), "", "")
			}
		}
	}
	table.Flush() //nolint:errcheck // An error of the terminal cannot be shown.
}

func slowest(all []timed) []timed {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b timed) int { return int(1000 * (b.Seconds - a.Seconds)) })
	return sorted[:min(longest, len(sorted))]
}
