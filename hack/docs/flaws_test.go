package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const migration = "docs/migration-from-capm3.md"

// declaresTest matches the declaration of a test: a function, a spec of Ginkgo, or a story.
var declaresTest = regexp.MustCompile(`(?m)^func (?:Test|Fuzz)[A-Z]|^\s+(?:It|e\.story)\("|^\s+\{"[^"]+", func\(ctx`)

// TestEveryFlawHasATest requires that each row of the table of flaws names files with tests.
func TestEveryFlawHasATest(t *testing.T) {
	_, table, _ := strings.Cut(read(t, migration), "| CAPM3 1.14 | Here | Tests |\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table == "" {
		t.Fatalf("%s has no table of flaws: correct this test", migration)
	}
	for row := range strings.Lines(table) {
		columns := strings.Split(strings.Trim(strings.TrimSpace(row), "|"), " | ")
		if strings.HasPrefix(columns[0], " **") {
			continue
		}
		links := link.FindAllStringSubmatch(columns[len(columns)-1], -1)
		if len(columns) != 3 || len(links) == 0 {
			t.Errorf("a flaw has no test: %s", row)
		}
		for _, each := range links {
			path := filepath.Join(filepath.Dir(migration), each[1])
			if !strings.HasSuffix(path, "_test.go") || !declaresTest.MatchString(read(t, path)) {
				t.Errorf("%s declares no test: %s", path, row)
			}
		}
	}
}
