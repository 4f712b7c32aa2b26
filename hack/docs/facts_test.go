package main

import (
	"context"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/plugin"
)

var code = regexp.MustCompile("`([^`]+)`")

// cells returns the texts in backquotes in one column of the tables of a document.
func cells(document string, column int) sets.Set[string] {
	found := sets.New[string]()
	for line := range strings.Lines(document) {
		parts := strings.Split(strings.TrimSpace(line), " | ")
		if !strings.HasPrefix(line, "| ") || len(parts) <= column {
			continue
		}
		for _, match := range code.FindAllStringSubmatch(parts[column], -1) {
			found.Insert(match[1])
		}
	}
	return found
}

// reasons returns the rows of the table of conditions and reasons.
func reasons(t *testing.T) string {
	t.Helper()
	_, after, _ := strings.Cut(read(t, "docs/troubleshooting.md"), "\n## Reasons\n")
	section, _, found := strings.Cut(after, "\n## ")
	if !found {
		t.Fatal("docs/troubleshooting.md has no section Reasons that another one follows")
	}
	return section
}

func TestEveryReasonIsExplained(t *testing.T) {
	explained := cells(reasons(t), 1)
	known := sets.New(v1beta2.PausedReason, v1beta2.NotPausedReason)
	for name, value := range constants(t, "api/v1beta2/conditions*.go") {
		if !strings.HasSuffix(name, "Reason") {
			continue
		}
		known.Insert(value)
		if !explained.Has(value) {
			t.Errorf("docs/troubleshooting.md does not explain %s, the value of %s", value, name)
		}
	}
	for reason := range explained {
		if !known.Has(reason) {
			t.Errorf("docs/troubleshooting.md explains %s, which no condition has", reason)
		}
	}
}

func TestEveryConditionIsExplained(t *testing.T) {
	explained, known := cells(reasons(t), 0), sets.New[string]()
	for name, value := range constants(t, "api/v1beta2/conditions*.go") {
		if !strings.HasSuffix(name, "Condition") {
			continue
		}
		known.Insert(value)
		if !explained.Has(value) {
			t.Errorf("docs/troubleshooting.md does not list %s, the value of %s", value, name)
		}
	}
	for _, stale := range sets.List(explained.Difference(known)) {
		t.Errorf("docs/troubleshooting.md lists %s, which is not a condition of this provider", stale)
	}
}

func TestEveryPhaseIsExplained(t *testing.T) {
	explained := cells(read(t, "docs/pivot.md"), 0)
	for _, phase := range pivot.Phases() {
		if !explained.Has(string(phase)) {
			t.Errorf("docs/pivot.md does not explain phase %s", phase)
		}
	}
}

// TestQuickStartHasTheChaptersOfTheDemo requires the titles that the demo prints, in their order.
func TestQuickStartHasTheChaptersOfTheDemo(t *testing.T) {
	_, list, _ := strings.Cut(read(t, "hack/demo/pivot.go"), "return []chapter{\n")
	list, _, _ = strings.Cut(list, "\n\t}\n}")
	var printed []string
	for _, match := range regexp.MustCompile(`\{(?:fmt\.Sprintf\()?"([^"]+)",`).FindAllStringSubmatch(list, -1) {
		// By default, the demo has three control-plane nodes and one worker.
		printed = append(printed, strings.ReplaceAll(match[1], "%d", "4"))
	}
	_, table, _ := strings.Cut(read(t, "docs/quickstart.md"), "| Chapter | What happens |\n| --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var explained []string
	for row := range strings.Lines(table) {
		if title, _, _ := strings.Cut(strings.TrimPrefix(row, "| "), " |"); title != "before the first" {
			explained = append(explained, title)
		}
	}
	if diff := cmp.Diff(printed, explained); diff != "" {
		t.Errorf("chapters of docs/quickstart.md: -printed, +explained:\n%s", diff)
	}
}

// pluginHelp returns the help of a command of the plugin.
func pluginHelp(t *testing.T, arguments ...string) string {
	t.Helper()
	var output, problems strings.Builder
	code := plugin.Main(context.Background(), slices.Concat([]string{"clusterctl-metal3"}, arguments, []string{"--help"}),
		plugin.Environment{Output: &output, Errors: &problems})
	if code != 0 {
		t.Fatalf("%q has no help: %s", arguments, problems.String())
	}
	return output.String()
}

// pluginCommands returns the commands of pivot.
func pluginCommands(t *testing.T) sets.Set[string] {
	t.Helper()
	_, listed, _ := strings.Cut(pluginHelp(t, "pivot"), "Available Commands:\n")
	listed, _, _ = strings.Cut(listed, "\n\n")
	names := sets.New[string]()
	for line := range strings.Lines(listed) {
		names.Insert(strings.Fields(line)[0])
	}
	if names.Len() == 0 {
		t.Fatal("the help of pivot lists no command: correct this test")
	}
	return names
}

func TestEveryCommandOfThePluginIsExplained(t *testing.T) {
	explained := sets.New[string]()
	for cell := range cells(read(t, "docs/plugin.md"), 0) {
		if name, is := strings.CutPrefix(cell, "pivot "); is {
			explained.Insert(name)
		}
	}
	known := pluginCommands(t)
	for _, missing := range sets.List(known.Difference(explained)) {
		t.Errorf("docs/plugin.md does not explain pivot %s", missing)
	}
	for _, stale := range sets.List(explained.Difference(known)) {
		t.Errorf("docs/plugin.md explains pivot %s, which the plugin does not have", stale)
	}
}

func TestEveryFlagOfThePluginIsExplained(t *testing.T) {
	flag := regexp.MustCompile(`--[a-z][a-z-]+`)
	known := sets.New("--help", "--version")
	page := read(t, "docs/plugin.md")
	for name := range pluginCommands(t) {
		_, listed, _ := strings.Cut(pluginHelp(t, "pivot", name), "Flags:\n")
		for _, match := range regexp.MustCompile(`(?m)^ +(?:-\w, )?(--[a-z-]+)`).FindAllStringSubmatch(listed, -1) {
			known.Insert(match[1])
			if match[1] != "--help" && !regexp.MustCompile(match[1]+`\b[^-]`).MatchString(page) {
				t.Errorf("docs/plugin.md does not mention %s of pivot %s", match[1], name)
			}
		}
	}
	for cell := range cells(page, 0) {
		for _, name := range flag.FindAllString(cell, -1) {
			if !known.Has(name) {
				t.Errorf("docs/plugin.md explains %s, which no command has", name)
			}
		}
	}
}

// guardMetrics returns the metrics of the guard.
func guardMetrics(t *testing.T) sets.Set[string] {
	t.Helper()
	names := sets.New[string]()
	declared := regexp.MustCompile(`(?:\b(?:gauge|counter)\(|metricPrefix \+ )"([a-z_]+)"`)
	for _, match := range declared.FindAllStringSubmatch(read(t, "internal/guard/facts.go"), -1) {
		names.Insert("metal3_guard_" + match[1])
	}
	if names.Len() < 10 {
		t.Fatalf("internal/guard/facts.go declares only %q: correct this test", sets.List(names))
	}
	return names
}

func TestEveryMetricIsDescribed(t *testing.T) {
	described := cells(read(t, "docs/metrics.md"), 0)
	name := regexp.MustCompile(`^metal3_[a-z_]+[a-z]$`)
	exported := guardMetrics(t)
	for _, path := range goFiles(t, "controllers", "internal") {
		relative, err := filepath.Rel(root(t), path)
		if err != nil {
			t.Fatal(err)
		}
		exported.Insert(literals(t, relative, name.MatchString)...)
	}
	for _, missing := range sets.List(exported.Difference(described)) {
		t.Errorf("docs/metrics.md does not describe %s", missing)
	}
	for _, stale := range sets.List(described.Difference(exported)) {
		t.Errorf("docs/metrics.md describes %s, which neither the manager nor the guard exports", stale)
	}
}

func TestEveryNameOnObjectsIsDescribed(t *testing.T) {
	var pages strings.Builder
	for name, text := range texts(t) {
		if strings.HasPrefix(name, "docs/spec/") {
			pages.WriteString(text)
		}
	}
	for _, file := range []string{"api/v1beta2/annotations.go", "api/v1beta1/conversion.go"} {
		for name, value := range constants(t, file) {
			if !strings.Contains(pages.String(), value) {
				t.Errorf("no page of docs/spec describes %s, the value of %s", value, name)
			}
		}
	}
}

func TestVariablesOfFlagsAreListed(t *testing.T) {
	page := read(t, "docs/flags.md")
	argument := regexp.MustCompile(`- (--[a-z-]+)=\$\{([A-Z0-9_]+):=([^}]*)\}`)
	matches := argument.FindAllStringSubmatch(read(t, "config/manager/manager.yaml"), -1)
	if len(matches) == 0 {
		t.Error("config/manager/manager.yaml has no variables: take the table out of docs/flags.md")
	}
	for _, match := range matches {
		row := "| `" + match[2] + "` | `" + match[1] + "` | `" + match[3] + "` |"
		if !strings.Contains(page, row) {
			t.Errorf("docs/flags.md does not have the row %s", row)
		}
	}
}

// TestReasonsOfHostsAreListedInOrder requires the reasons in the order of the checks of a host.
func TestReasonsOfHostsAreListedInOrder(t *testing.T) {
	page := read(t, "docs/spec/metal3machine.md")
	order := []string{
		"being deleted", "claimed", "reserved for another owner", "not matching selector", "not in failure domain",
		"paused", "detached", "marked unhealthy", "in error", "externally provisioned", "in use without a consumer",
		"not available yet",
	}
	declared := slices.Collect(maps.Values(constants(t, "baremetal/host/check.go")))
	for _, reason := range order {
		if !slices.Contains(declared, reason) {
			t.Errorf("baremetal/host has no reason %q", reason)
		}
	}
	last := -1
	for _, reason := range order {
		at := strings.Index(page, "| `"+reason+"` |")
		if at <= last {
			t.Errorf("docs/spec/metal3machine.md does not list the reason %q, or not in this order", reason)
		}
		last = at
	}
}
