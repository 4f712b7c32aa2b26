package main

import (
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

const endpointPage = "docs/ironic-endpoint.md"

// reasonsUnder returns the reasons of the tables with the head Reason in a section of the page about the endpoint.
func reasonsUnder(t *testing.T, heading string) sets.Set[string] {
	t.Helper()
	_, after, found := strings.Cut(read(t, endpointPage), "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no section %s", endpointPage, heading)
	}
	section, _, _ := strings.Cut(after, "\n#")
	listed := sets.New[string]()
	for part := range strings.SplitSeq(section, "\n\n") {
		var table strings.Builder
		for line := range strings.Lines(part) {
			table.WriteString(strings.TrimLeft(line, " "))
		}
		if strings.HasPrefix(table.String(), "| Reason |") {
			listed = listed.Union(cells(table.String(), 0))
		}
	}
	return listed
}

// matchesIn returns the first group of all matches in the source of folders.
func matchesIn(t *testing.T, pattern string, files ...string) sets.Set[string] {
	t.Helper()
	found := sets.New[string]()
	for _, name := range files {
		for _, match := range regexp.MustCompile(pattern).FindAllStringSubmatch(read(t, name), -1) {
			found.Insert(match[1])
		}
	}
	if found.Len() == 0 {
		t.Fatalf("%q does not match: correct this test", pattern)
	}
	return found
}

func requireReasons(t *testing.T, known, explained sets.Set[string]) {
	t.Helper()
	for _, missing := range sets.List(known.Difference(explained)) {
		t.Errorf("%s does not explain the reason %s of the guard", endpointPage, missing)
	}
	for _, stale := range sets.List(explained.Difference(known)) {
		t.Errorf("%s explains the reason %s, which the guard does not have", endpointPage, stale)
	}
}

func TestReasonsOfTheGuardToArmAreExplained(t *testing.T) {
	const policy = "internal/guard/policy/policy.go"
	known := matchesIn(t, `Reason: "(\w+)"`, policy).Union(matchesIn(t, `unlessRefused\([^"]+, "(\w+)"\)`, policy))
	requireReasons(t, known, reasonsUnder(t, "### Why a node may hold the VIP"))
}

func TestFailuresOfIronicChecksAreExplained(t *testing.T) {
	const failures = "internal/guard/health/failure.go"
	connection := matchesIn(t, `(?:return|(?:slow|refused|broken) +=) "(\w+)"\n`, failures)
	known := matchesIn(t, `Failure\{(?:Reason: )?"(\w+)",`, "internal/guard/health/health.go", "internal/guard/rounds.go").
		Union(connection).Union(matchesIn(t, `apiStatus += "(\w+)"`, failures))
	// Images are requested without TLS. Only the reasons of a connection have a prefix.
	known.Delete("Image")
	for reason := range connection {
		if reason != "Unknown" && !strings.HasPrefix(reason, "Certificate") {
			known.Insert("Image" + reason)
		}
	}
	requireReasons(t, known, reasonsUnder(t, "## No node holds the VIP"))
}
