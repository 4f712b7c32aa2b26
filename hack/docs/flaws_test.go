package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const migration = "docs/migration-from-capm3.md"

// declaresTest returns true for the source of a test with a name: a function, a spec of Ginkgo, or a story. The name of a
// spec may be the beginning of a composed name.
func declaresTest(source, name string) bool {
	quoted := regexp.QuoteMeta(name)
	declared := regexp.MustCompile(`(?m)^func ` + quoted + `\(|^\s+(?:It\(|e\.story\(|\{)"` + quoted + ` ?"`)
	return declared.MatchString(source)
}

// TestEveryFlawHasATest requires that each row of the table of flaws names existing tests in the titles of its links.
func TestEveryFlawHasATest(t *testing.T) {
	_, table, _ := strings.Cut(read(t, migration), "| CAPM3 1.14 | Here | Tests |\n| --- | --- | --- |\n")
	table, _, _ = strings.Cut(table, "\n\n")
	if table == "" {
		t.Fatalf("%s has no table of flaws: correct this test", migration)
	}
	for row := range strings.Lines(table) {
		columns := strings.Split(strings.Trim(row, "|\n"), " | ")
		if strings.HasPrefix(columns[0], " **") {
			continue
		}
		links := link.FindAllStringSubmatch(columns[len(columns)-1], -1)
		if len(columns) != 3 || len(links) == 0 {
			t.Errorf("a flaw has no test: %s", row)
		}
		for _, each := range links {
			path := filepath.Join(filepath.Dir(migration), each[1])
			if !declaresTest(read(t, path), each[3]) {
				t.Errorf("%s declares no test %q: %s", path, each[3], row)
			}
		}
	}
}
