package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/cluster-api/api/core/v1beta2"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

var code = regexp.MustCompile("`([^`]+)`")

// cells returns what stands in backquotes in one column of the tables of a document.
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

// reasons are the rows of the table of conditions and reasons.
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
	explained := cells(reasons(t), 0)
	for name, value := range constants(t, "api/v1beta2/conditions*.go") {
		if strings.HasSuffix(name, "Condition") && !explained.Has(value) {
			t.Errorf("docs/troubleshooting.md does not list %s, the value of %s", value, name)
		}
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

func TestEveryEventOfAHostIsExplained(t *testing.T) {
	explained := cells(read(t, "docs/troubleshooting.md"), 0)
	events := regexp.MustCompile(`EventType(?:Warning|Normal), "([A-Za-z]+)"`)
	matches := events.FindAllStringSubmatch(read(t, "controllers/hostmove/controller.go"), -1)
	if len(matches) == 0 {
		t.Error("controllers/hostmove/controller.go writes no event: correct this test")
	}
	for _, match := range matches {
		if !explained.Has(match[1]) {
			t.Errorf("docs/troubleshooting.md does not explain event %s", match[1])
		}
	}
}

func TestEveryCommandOfThePluginIsExplained(t *testing.T) {
	explained := cells(read(t, "docs/plugin.md"), 0)
	for _, match := range regexp.MustCompile(`(?m)^\t\t\t"([a-z]+)", "`).FindAllStringSubmatch(read(t, "internal/plugin/command.go"), -1) {
		if !explained.Has("pivot " + match[1]) {
			t.Errorf("docs/plugin.md does not explain pivot %s", match[1])
		}
	}
}

func TestEveryMetricIsDescribed(t *testing.T) {
	described := cells(read(t, "docs/metrics.md"), 0)
	name := regexp.MustCompile(`^metal3_[a-z_]+$`)
	exported := sets.New(slices.Concat(
		literals(t, "internal/hoststore/metrics.go", name.MatchString),
		literals(t, "controllers/metal3cluster/metrics.go", name.MatchString),
		literals(t, "controllers/metal3data/metrics.go", name.MatchString),
		literals(t, "controllers/metal3remediation/metrics.go", name.MatchString),
	)...)
	for _, missing := range sets.List(exported.Difference(described)) {
		t.Errorf("docs/metrics.md does not describe %s", missing)
	}
	for _, stale := range sets.List(described.Difference(exported)) {
		t.Errorf("docs/metrics.md describes %s, which the manager does not export", stale)
	}
}

func TestEveryNameOnObjectsIsDescribed(t *testing.T) {
	var pages strings.Builder
	for name, text := range texts(t) {
		if strings.HasPrefix(name, "docs/spec/") {
			pages.WriteString(text)
		}
	}
	for name, value := range constants(t, "api/v1beta2/annotations.go") {
		if !strings.Contains(pages.String(), value) {
			t.Errorf("no page of docs/spec describes %s, the value of %s", value, name)
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

// A host passes these checks in this order, so the page has to name them all and in the same order.
func TestReasonsOfHostsAreListedInOrder(t *testing.T) {
	page := read(t, "docs/spec/metal3machine.md")
	order := []string{
		"being deleted", "claimed", "reserved for another owner", "not matching selector", "not in failure domain",
		"paused", "detached", "marked unhealthy", "in error", "externally provisioned", "in use without a consumer",
		"not available yet",
	}
	var declared []string
	for _, value := range constants(t, "baremetal/host/check.go") {
		declared = append(declared, value)
	}
	for _, reason := range order {
		if !slices.Contains(declared, reason) {
			t.Errorf("baremetal/host knows no reason %q", reason)
		}
	}
	last := -1
	for _, reason := range order {
		at := strings.Index(page, "| `"+reason+"` |")
		if at <= last {
			t.Errorf("docs/spec/metal3machine.md does not list the reason %q, or in another order", reason)
		}
		last = at
	}
}
