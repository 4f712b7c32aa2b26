package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/onsi/ginkgo/v2/types"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/reports"
)

// event is an event of test2json for a test, a package or a build.
type event struct {
	Action, Package, Test, Output, ImportPath string
	Elapsed                                   float64
}

// test names a test. With an empty name, it is the output of a package.
type test struct{ path, name string }

// timed is the duration of a package or a spec.
type timed struct {
	Name    string  `json:"name"`
	Seconds float64 `json:"seconds"`
}

// skip is a test that skipped itself.
type skip struct{ name, reason string }

// failure is a failed test or package. The message of a package is empty.
type failure struct{ name, message string }

// result is the result of a step.
type result struct {
	step            step
	took, processor time.Duration
	commandFailed   bool

	packages, specs []timed
	apiServers      int
	passed          int
	// stories counts the specs that ran.
	stories int
	failed  []failure
	skipped []skip
	// output is the output of tests that have not passed yet.
	output map[test][]string
}

func newResult(of step) *result { return &result{step: of, output: map[test][]string{}} }

func (r *result) failures() int {
	if r.commandFailed {
		return 1
	}
	return len(r.failed)
}

// missing returns an error if the step ran none of the chosen stories. A step on nodes without chosen stories may skip
// all of them, with a reason.
func (r *result) missing() error {
	switch {
	case r.stories > 0, r.step.story == "" && (!r.step.live || len(r.skipped) > 0):
		return nil
	case r.step.story == "":
		return errors.New("nothing was tested: no story has the label of this tier")
	}
	return fmt.Errorf("nothing was tested: no story matches %q, or the stories were skipped for the reasons above",
		r.step.story)
}

// read parses one line of go test -json. It prints the end of each package, failures and, in a live step, all output.
func (r *result) read(line []byte, out io.Writer) {
	var parsed event
	if err := json.Unmarshal(line, &parsed); err != nil {
		// Other lines are output of the go command.
		fmt.Fprintf(out, "%s\n", line)
		return
	}
	if parsed.ImportPath != "" {
		fmt.Fprint(out, parsed.Output)
		return
	}
	this := test{short(parsed.Package), parsed.Test}
	switch parsed.Action {
	case "output":
		if r.step.live {
			fmt.Fprint(out, parsed.Output)
		}
		r.output[this] = append(r.output[this], parsed.Output)
	case "pass", "fail", "skip":
		r.end(this, parsed, out)
	}
}

func (r *result) end(this test, parsed event, out io.Writer) {
	printed := r.output[this]
	delete(r.output, this)
	if this.name != "" {
		switch parsed.Action {
		case "pass":
			r.passed++
		case "skip":
			r.skipped = append(r.skipped, skip{this.path + " " + this.name, reasonOf(printed)})
		case "fail":
			r.failed = append(r.failed, failure{this.path + " " + this.name, reasonOf(printed)})
			if !r.step.live {
				fmt.Fprintf(out, "--- FAILED %s %s\n%s", this.path, this.name, strings.Join(printed, ""))
			}
		}
		return
	}
	r.packages = append(r.packages, timed{this.path, parsed.Elapsed})
	progress := fmt.Sprintf("[%d/%d]", len(r.packages), len(r.step.packages))
	if parsed.Action != "fail" {
		fmt.Fprintf(out, "%s %s %s %.1f s\n", progress, parsed.Action, this.path, parsed.Elapsed)
		return
	}
	if !slices.ContainsFunc(r.failed, func(f failure) bool { return strings.HasPrefix(f.name, this.path+" ") }) {
		// The package did not compile, or its process ended.
		r.failed = append(r.failed, failure{name: this.path})
		r.printUnfinished(this.path, out)
	}
	fmt.Fprintf(out, "%s FAILED %s %.1f s\n%s", progress, this.path, parsed.Elapsed, strings.Join(printed, ""))
}

// printUnfinished prints the output of the tests of a package that neither passed nor failed.
func (r *result) printUnfinished(path string, out io.Writer) {
	if r.step.live {
		return
	}
	for unfinished, printed := range r.output {
		if unfinished.path == path {
			fmt.Fprintf(out, "--- NOT FINISHED %s %s\n%s", path, unfinished.name, strings.Join(printed, ""))
		}
	}
}

// position matches the start of a message of a test: "    file_test.go:12: ".
var position = regexp.MustCompile(`^\s+\S+\.go:\d+: `)

// reasonOf returns the last message of a test that was skipped or failed.
func reasonOf(printed []string) string {
	for _, line := range slices.Backward(printed) {
		if position.MatchString(line) {
			return strings.TrimSpace(position.ReplaceAllString(line, ""))
		}
	}
	return "no reason given"
}

// short returns the path of a package within the module.
func short(path string) string {
	const depth = 3
	parts := strings.SplitN(path, "/", depth+1)
	if len(parts) <= depth {
		return "."
	}
	return "./" + parts[depth]
}

// readReports reads the reports of suites about their specs.
func (r *result) readReports(folder string) error {
	servers, err := filepath.Glob(filepath.Join(folder, "*"+reports.APIServer))
	if err != nil {
		return err
	}
	r.apiServers = len(servers)
	files, err := filepath.Glob(filepath.Join(folder, "*"+reports.Specs))
	if err != nil {
		return err
	}
	for _, file := range files {
		var suites []types.Report
		if err := readJSON(file, &suites); err != nil {
			return err
		}
		for _, suite := range suites {
			for _, spec := range suite.SpecReports {
				r.readSpec(spec)
			}
		}
	}
	return nil
}

// readSpec counts a spec, and records a failed spec. The Go test of its suite fails too.
func (r *result) readSpec(spec types.SpecReport) {
	name := spec.FullText()
	isSpec := spec.LeafNodeType == types.NodeTypeIt
	if !isSpec {
		name = spec.LeafNodeType.String()
	}
	name = filepath.Base(filepath.Dir(spec.FileName())) + ": " + name
	if isSpec && spec.State.Is(types.SpecStatePassed|types.SpecStateFailureStates) {
		r.stories++
	}
	switch {
	case spec.State.Is(types.SpecStatePassed):
		r.specs = append(r.specs, timed{name, spec.RunTime.Seconds()})
		if isSpec {
			r.passed++
		}
	case spec.State.Is(types.SpecStateFailureStates):
		r.specs = append(r.specs, timed{name, spec.RunTime.Seconds()})
		r.failed = append(r.failed, failure{name, spec.Failure.Message + spec.Failure.ForwardedPanic})
	case spec.State.Is(types.SpecStateSkipped) && spec.Failure.Message != "":
		r.skipped = append(r.skipped, skip{name, spec.Failure.Message})
	}
}
