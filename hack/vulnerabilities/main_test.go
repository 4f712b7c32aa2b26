package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// entry marks one function of the standard library as vulnerable in every version.
const entry = `{
  "schema_version": "1.3.1", "id": "GO-0000-0001", "modified": "2026-01-01T00:00:00Z",
  "published": "2026-01-01T00:00:00Z", "summary": "A test", "details": "A test",
  "affected": [{
    "package": {"name": "stdlib", "ecosystem": "Go"},
    "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
    "ecosystem_specific": {"imports": [{"path": "strings", "symbols": ["ToUpper"]}]}
  }],
  "database_specific": {"url": "https://pkg.go.dev/vuln/GO-0000-0001", "review_status": "REVIEWED"}
}`

// database writes a database in files, with one entry or with none.
func database(t *testing.T, withEntry bool) string {
	t.Helper()
	folder := t.TempDir()
	files := map[string]string{
		"index/db.json": `{"modified":"2026-01-01T00:00:00Z"}`, "index/modules.json": `[]`, "index/vulns.json": `[]`,
	}
	if withEntry {
		files["index/modules.json"] = `[{"path":"stdlib","vulns":[{"id":"GO-0000-0001","modified":"2026-01-01T00:00:00Z"}]}]`
		files["index/vulns.json"] = `[{"id":"GO-0000-0001","modified":"2026-01-01T00:00:00Z"}]`
		files["ID/GO-0000-0001.json"] = entry
	}
	write(t, folder, files)
	return "file://" + folder
}

func write(t *testing.T, folder string, files map[string]string) {
	t.Helper()
	for name, content := range files {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestScan(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	built, err := binaries.Ensure(t.Context(), root, programs(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	module := t.TempDir()
	write(t, module, map[string]string{
		"go.mod":  "module example.com/caller\n\ngo 1.26.0\n",
		"main.go": "package main\n\nimport \"strings\"\n\nfunc main() { println(strings.ToUpper(\"a\")) }\n",
	})
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	refusing := httptest.NewServer(http.NotFoundHandler())
	defer refusing.Close()
	cases := map[string]struct {
		reason, database    string
		required, wantError bool
		want                string
	}{
		"Clean":       {"no known vulnerability", database(t, false), true, false, "none known"},
		"Finding":     {"the program calls a vulnerable function", database(t, true), false, true, "GO-0000-0001"},
		"OutOfReach":  {"without a network nothing is checked", silent.URL, false, false, "NOTHING WAS CHECKED"},
		"Refused":     {"a proxy that refuses counts as no database", refusing.URL, false, false, "NOTHING WAS CHECKED"},
		"Required":    {"the database is required", silent.URL, true, true, "out of reach"},
		"BrokenFiles": {"a missing local database", "file:///does/not/exist", false, true, "govulncheck"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var output strings.Builder
			err := scan{
				program: filepath.Join(built, "govulncheck"), folder: module, database: tc.database, required: tc.required,
			}.run(t.Context(), &output)
			text := output.String()
			if err != nil {
				text += err.Error()
			}
			if (err != nil) != tc.wantError || !strings.Contains(text, tc.want) {
				t.Errorf("%s: got error %v and output\n%s", tc.reason, err, output.String())
			}
		})
	}
}
