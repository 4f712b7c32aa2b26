package fence_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const module = "github.com/metal3-pivot/cluster-api-provider-metal3"

// finding is one line with a violation. Its text identifies the rule.
type finding struct {
	File   string
	Line   int
	Linter string
	Text   string
}

// TestPlantedViolationsAreReported requires exactly the planted findings. The tree clean has no violation.
func TestPlantedViolationsAreReported(t *testing.T) {
	folder := newModule(t, "clean", "planted")
	want := planted(t, filepath.Join("testdata", "planted"))
	got := lint(t, folder)
	for i := range got {
		got[i].Text = known(want, got[i])
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("planted violations: -want, +got:\n%s", diff)
	}
}

// TestEveryPackageHasAFloor adds one forbidden import to each package of the product. A package without a floor may
// import anything, without a finding.
func TestEveryPackageHasAFloor(t *testing.T) {
	folder := newModule(t)
	write(t, filepath.Join(folder, "hack", "forbidden", "forbidden.go"), []byte("package forbidden\n"))
	want := []finding{}
	for _, dir := range productPackages(t) {
		file := filepath.Join(dir, "planted.go")
		source := fmt.Sprintf("package planted\n\nimport _ %q\n", module+"/hack/forbidden")
		write(t, filepath.Join(folder, file), []byte(source))
		want = append(want, finding{File: file, Line: 3, Linter: "depguard"})
	}
	sortFindings(want)
	got := lint(t, folder)
	for i := range got {
		got[i].Text = ""
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("packages without a floor, add them to .golangci.yml: -want, +got:\n%s", diff)
	}
}

// newModule creates a module with the name, the requirements and the rules of this checkout, and the given trees of
// testdata.
func newModule(t *testing.T, trees ...string) string {
	t.Helper()
	// The linter prints paths without symbolic links.
	folder, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml"} {
		content, err := os.ReadFile(filepath.Join(checkout(t), name))
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(folder, name), content)
	}
	addMockLibrary(t, folder)
	for _, tree := range trees {
		if err := os.CopyFS(folder, os.DirFS(filepath.Join("testdata", tree))); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// addMockLibrary adds an empty module with the name of a forbidden one, so that the real one is not required.
func addMockLibrary(t *testing.T, folder string) {
	t.Helper()
	const library = "go.uber.org/mock"
	write(t, filepath.Join(folder, "hack", "mock", "go.mod"), []byte("module "+library+"\n"))
	write(t, filepath.Join(folder, "hack", "mock", "gomock", "gomock.go"), []byte("package gomock\n"))
	requirements := filepath.Join(folder, "go.mod")
	content, err := os.ReadFile(requirements)
	if err != nil {
		t.Fatal(err)
	}
	write(t, requirements, fmt.Appendf(content, "\nrequire %[1]s v0.0.0\n\nreplace %[1]s => ./hack/mock\n", library))
}

// lint runs the linters of imports and returns their findings, in order.
func lint(t *testing.T, folder string) []finding {
	t.Helper()
	programs, err := binaries.Ensure(t.Context(), checkout(t), binaries.Linters(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(t.TempDir(), "report.json")
	command := exec.CommandContext(t.Context(), filepath.Join(programs, "golangci-lint"), "run",
		"--enable-only=depguard,forbidigo", "--allow-parallel-runners", "--output.json.path="+report, "./...")
	command.Dir = folder
	command.Env = append(os.Environ(), "GOFLAGS=-mod=readonly", "GOPROXY=off", "GOWORK=off",
		"GOLANGCI_LINT_CACHE="+t.TempDir())
	output, err := command.CombinedOutput()
	exit := &exec.ExitError{}
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Fatalf("running the linter: %v\n%s", err, output)
	}
	return readReport(t, report)
}

func readReport(t *testing.T, path string) []finding {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	report := struct {
		Issues []struct {
			FromLinter string
			Text       string
			Pos        struct {
				Filename string
				Line     int
			}
		}
	}{}
	if err := json.Unmarshal(content, &report); err != nil {
		t.Fatal(err)
	}
	var findings []finding
	for _, issue := range report.Issues {
		findings = append(findings, finding{
			File: issue.Pos.Filename, Line: issue.Pos.Line, Linter: issue.FromLinter, Text: issue.Text,
		})
	}
	sortFindings(findings)
	return findings
}

// planted returns the findings in the comments of a tree.
func planted(t *testing.T, tree string) []finding {
	t.Helper()
	var findings []finding
	violation := regexp.MustCompile(`// want (.+)$`)
	err := filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		file, err := filepath.Rel(tree, path)
		if err != nil {
			return err
		}
		for i, line := range bytes.Split(content, []byte("\n")) {
			match := violation.FindSubmatch(line)
			if match == nil {
				continue
			}
			for part := range strings.SplitSeq(string(match[1]), ", ") {
				linter, text, _ := strings.Cut(part, " ")
				findings = append(findings, finding{File: file, Line: i + 1, Linter: linter, Text: text})
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	sortFindings(findings)
	return findings
}

// known returns the text of the violation that a finding matches, or the text of the finding if there is none.
func known(planted []finding, got finding) string {
	for _, violation := range planted {
		same := violation.File == got.File && violation.Line == got.Line && violation.Linter == got.Linter
		if same && strings.Contains(got.Text, violation.Text) {
			return violation.Text
		}
	}
	return got.Text
}

// productPackages returns the folders with Go code of the product.
func productPackages(t *testing.T) []string {
	t.Helper()
	root := checkout(t)
	folders := map[string]bool{}
	for _, top := range []string{"api", "baremetal", "cmd", "controllers", "internal"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, entry fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err != nil {
				return err
			}
			relative, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			if relative == filepath.Join("internal", "testkit") || entry.Name() == "testdata" {
				return filepath.SkipDir
			}
			if filepath.Ext(path) == ".go" && !strings.HasSuffix(path, "_test.go") {
				folders[filepath.Dir(relative)] = true
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return slices.Sorted(maps.Keys(folders))
}

func sortFindings(findings []finding) {
	slices.SortFunc(findings, func(a, b finding) int {
		return strings.Compare(fmt.Sprintf("%s:%06d %s %s", a.File, a.Line, a.Linter, a.Text),
			fmt.Sprintf("%s:%06d %s %s", b.File, b.Line, b.Linter, b.Text))
	})
}

func checkout(t *testing.T) string {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	return root
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
