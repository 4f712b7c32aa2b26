package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/onsi/ginkgo/v2/types"
)

// stream is the output of go test -json for four packages: one passes with a skipped test, one fails, one does not
// compile, and the process of one ends.
const stream = `{"ImportPath":"example.com/o/m/p/broken","Action":"build-output","Output":"broken.go:1: no\n"}
{"Action":"start","Package":"example.com/o/m/p/good"}
{"Action":"output","Package":"example.com/o/m/p/good","Test":"TestRoot","Output":"=== RUN   TestRoot\n"}
{"Action":"output","Package":"example.com/o/m/p/good","Test":"TestRoot","Output":"    good_test.go:7: needs root\n"}
{"Action":"output","Package":"example.com/o/m/p/good","Test":"TestRoot","Output":"--- SKIP: TestRoot (0.00s)\n"}
{"Action":"skip","Package":"example.com/o/m/p/good","Test":"TestRoot","Elapsed":0}
{"Action":"output","Package":"example.com/o/m/p/good","Test":"TestFine","Output":"chatter\n"}
{"Action":"pass","Package":"example.com/o/m/p/good","Test":"TestFine","Elapsed":0.5}
{"Action":"pass","Package":"example.com/o/m/p/good","Elapsed":1.5}
{"Action":"output","Package":"example.com/o/m/p/bad","Test":"TestBad","Output":"    bad_test.go:9: got 1, want 2\n"}
{"Action":"fail","Package":"example.com/o/m/p/bad","Test":"TestBad","Elapsed":0.1}
{"Action":"fail","Package":"example.com/o/m/p/bad","Elapsed":0.2}
{"Action":"output","Package":"example.com/o/m/p/broken","Output":"FAIL example.com/o/m/p/broken [build failed]\n"}
{"Action":"fail","Package":"example.com/o/m/p/broken","Elapsed":0}
{"Action":"output","Package":"example.com/o/m/p/dead","Test":"TestHangs","Output":"waiting for nobody\n"}
{"Action":"output","Package":"example.com/o/m/p/dead","Output":"panic: test timed out\n"}
{"Action":"fail","Package":"example.com/o/m/p/dead","Elapsed":9}
not an event
`

// fields compares the fields of results.
var fields = cmp.AllowUnexported(skip{}, failure{})

func read(of step) (*result, string) {
	var shown strings.Builder
	outcome := newResult(of)
	for line := range strings.Lines(stream) {
		outcome.read([]byte(strings.TrimSuffix(line, "\n")), &shown)
	}
	return outcome, shown.String()
}

func TestRead(t *testing.T) {
	outcome, shown := read(step{name: "all", packages: make([]string, 4)})
	failed := []failure{{"./p/bad TestBad", "got 1, want 2"}, {name: "./p/broken"}, {name: "./p/dead"}}
	if diff := cmp.Diff(failed, outcome.failed, fields); diff != "" {
		t.Errorf("failed: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]skip{{"./p/good TestRoot", "needs root"}}, outcome.skipped, fields); diff != "" {
		t.Errorf("skipped: -want +got:\n%s", diff)
	}
	if outcome.passed != 1 || outcome.failures() != 3 {
		t.Errorf("%d passed and %d failed, want 1 and 3", outcome.passed, outcome.failures())
	}
	for _, want := range []string{
		"broken.go:1: no", "[1/4] pass ./p/good 1.5 s", "got 1, want 2", "[2/4] FAILED ./p/bad", "[build failed]",
		"--- NOT FINISHED ./p/dead TestHangs\nwaiting for nobody", "panic: test timed out", "not an event",
	} {
		if !strings.Contains(shown, want) {
			t.Errorf("%q is not shown:\n%s", want, shown)
		}
	}
	if strings.Contains(shown, "chatter") {
		t.Errorf("the output of a test that passes is printed:\n%s", shown)
	}
}

func TestReadSpec(t *testing.T) {
	location := types.CodeLocation{FileName: "/o/m/p/good/stories_test.go"}
	spec := func(kind types.NodeType, state types.SpecState, text, message string) types.SpecReport {
		return types.SpecReport{
			LeafNodeType: kind, LeafNodeText: text, LeafNodeLocation: location, State: state,
			Failure: types.Failure{Message: message},
		}
	}
	outcome := newResult(step{})
	for _, one := range []types.SpecReport{
		spec(types.NodeTypeBeforeSuite, types.SpecStatePassed, "", ""),
		spec(types.NodeTypeIt, types.SpecStatePassed, "claims a host", ""),
		spec(types.NodeTypeIt, types.SpecStateTimedout, "releases a host", "too late"),
		spec(types.NodeTypeIt, types.SpecStateSkipped, "moves", "needs root"),
		spec(types.NodeTypeIt, types.SpecStateSkipped, "not chosen by a label", ""),
	} {
		outcome.readSpec(one)
	}
	if outcome.passed != 1 {
		t.Errorf("%d specs passed, want 1", outcome.passed)
	}
	if diff := cmp.Diff([]failure{{"good: releases a host", "too late"}}, outcome.failed, fields); diff != "" {
		t.Errorf("failed: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]skip{{"good: moves", "needs root"}}, outcome.skipped, fields); diff != "" {
		t.Errorf("skipped: -want +got:\n%s", diff)
	}
}

// TestMissingStories requires an error if no story has a chosen name, or if all are skipped.
func TestMissingStories(t *testing.T) {
	story := func(state types.SpecState) types.SpecReport {
		return types.SpecReport{LeafNodeType: types.NodeTypeIt, State: state, LeafNodeText: "a story"}
	}
	skipped := story(types.SpecStateSkipped)
	skipped.Failure.Message = "requires root"
	for name, tc := range map[string]struct {
		chosen  string
		live    bool
		reports []types.SpecReport
		missing bool
	}{
		"NoLabel":   {live: true, missing: true, reports: []types.SpecReport{story(types.SpecStateSkipped)}},
		"AllSkip":   {live: true, reports: []types.SpecReport{skipped}},
		"NotChosen": {reports: nil},
		"NoMatch":   {chosen: "typo", missing: true, reports: []types.SpecReport{story(types.SpecStateSkipped)}},
		"NotRoot":   {chosen: "a story", missing: true, reports: []types.SpecReport{{LeafNodeType: types.NodeTypeBeforeSuite}}},
		"Passed":    {chosen: "a story", reports: []types.SpecReport{story(types.SpecStatePassed)}},
		"Failed":    {chosen: "a story", reports: []types.SpecReport{story(types.SpecStateFailed)}},
	} {
		outcome := newResult(step{story: tc.chosen, live: tc.live})
		for _, report := range tc.reports {
			outcome.readSpec(report)
		}
		if err := outcome.missing(); (err != nil) != tc.missing {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestReadLive(t *testing.T) {
	if _, shown := read(step{live: true}); !strings.Contains(shown, "chatter") || strings.Count(shown, "got 1, want 2") != 1 {
		t.Errorf("a live step must print everything once:\n%s", shown)
	}
}

func TestSummaryNamesFailedAndSkippedTests(t *testing.T) {
	outcome, _ := read(step{name: "all"})
	outcome.failed = append(outcome.failed, failure{"p: moves", "first\n" + strings.Repeat("next\n", excerptLines)})
	for range 3 {
		outcome.skipped = append(outcome.skipped, skip{"./p/good TestOther", "needs root"})
	}
	total := summary{tier: "test", started: time.Now(), steps: []*result{outcome}, omitted: []string{"the lab"}}
	var shown strings.Builder
	total.print(&shown)
	for _, want := range []string{
		"FAILED ./p/bad TestBad\n    got 1, want 2\n", "FAILED p: moves\n    first\n    next\n", "and 1 more lines, above",
		"NOTE the lab", "SKIPPED 4: needs root", "and 1 more\n", "1 passed, 4 failed, 4 skipped\n",
	} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is missing:\n%s", want, shown.String())
		}
	}
}

func TestMarkFollowsContent(t *testing.T) {
	t.Setenv("METAL3_CACHE", t.TempDir())
	t.Chdir("../..")
	folder := t.TempDir()
	file := filepath.Join(folder, "a.go")
	write := func(content string) mark {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		made, err := newMark("lab", folder)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	first := write("one")
	if first.isSet() {
		t.Error("set before the tests have passed")
	}
	if err := first.set(); err != nil {
		t.Fatal(err)
	}
	if write("two").isSet() {
		t.Error("still set after a change")
	}
	if !write("one").isSet() {
		t.Error("lost although the content is the same")
	}
}

func TestEveryPackageIsInOneStep(t *testing.T) {
	t.Setenv("METAL3_CACHE", t.TempDir())
	t.Chdir("../..")
	packages, err := listPackages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	except := func(is func(string) bool) []string { return slices.DeleteFunc(slices.Clone(packages), is) }
	isOfProject := func(path string) bool { return matches(path, ofProject) }
	checks := except(func(path string) bool { return !isOfProject(path) })
	for tier, elsewhere := range map[string][]string{
		"checks": except(isOfProject), "test": slices.Concat(checks, withRelease, onNodes), "nightly": nil,
		"e2e": except(func(path string) bool { return slices.Contains(withRelease, path) || path == onNodes[0] }),
	} {
		planned, err := plan(t.Context(), tier, options{})
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, path := range elsewhere {
			count[path]++
		}
		for _, step := range planned.steps {
			for _, path := range step.packages {
				count[path]++
			}
		}
		for _, path := range packages {
			if count[path] != 1 {
				t.Errorf("%s: %s is in %d steps", tier, path, count[path])
			}
		}
	}
}

// TestStepsRunBesideOneAnother opens one end of a pipe in each step, which waits for the other step.
func TestStepsRunBesideOneAnother(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	tier := tier{steps: []step{
		{name: "writes", command: []string{"sh", "-c", "echo told >" + pipe}},
		{name: "reads", command: []string{"sh", "-c", "grep told " + pipe}, beside: true},
		{name: "later", command: []string{"false"}},
	}}
	rounds := tier.rounds()
	if len(rounds) != 2 || len(rounds[0]) != 2 {
		t.Fatalf("the rounds are %v, want two steps and then one", rounds)
	}
	outcomes, err := runTogether(t.Context(), rounds[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, outcome := range outcomes {
		if outcome.failures() != 0 {
			t.Errorf("%s has failed", outcome.step.name)
		}
	}
}
