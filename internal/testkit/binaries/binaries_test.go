package binaries_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// checkout creates a checkout with one set of two programs. The first prints a variable that the linker sets, and the
// tag of its build.
func checkout(t *testing.T, second string) (root string, set binaries.Set) {
	t.Helper()
	t.Setenv("METAL3_CACHE", t.TempDir())
	root = t.TempDir()
	for name, content := range map[string]string{
		"go.mod":          "module example.test/checks\n\ngo 1.26.0\n",
		"go.sum":          "",
		"named/named.go":  "package named\n\nvar Version = \"none\"\n",
		"first/main.go":   "package main\n\nimport \"example.test/checks/named\"\n\nfunc main() { print(named.Version, tag) }\n",
		"first/tagged.go": "//go:build checked\n\npackage main\n\nconst tag = \" checked\"\n",
		"second/main.go":  second,
	} {
		path := filepath.Join(root, "hack", "checks", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root, binaries.Set{
		Name: "checks", Tags: "checked", LDFlags: "-X example.test/checks/named.Version=v7",
		Programs: []binaries.Program{
			{Name: "one", Package: "example.test/checks/first"}, {Name: "two", Package: "example.test/checks/second"},
		},
	}
}

const prints = "package main\n\nfunc main() { print(\"second\") }\n"

func TestEnsureBuildsAllProgramsOnce(t *testing.T) {
	root, set := checkout(t, prints)
	var progress bytes.Buffer
	folder, err := binaries.Ensure(t.Context(), root, set, &progress)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"one": "v7 checked", "two": "second"} {
		output, err := exec.CommandContext(t.Context(), filepath.Join(folder, name)).CombinedOutput()
		if err != nil || string(output) != want {
			t.Errorf("%s printed %q (%v), want %q", name, output, err, want)
		}
	}
	for _, line := range []string{"[checks] compiling one, two: done", "linking one: done", "linking two: done"} {
		if !strings.Contains(progress.String(), line) {
			t.Errorf("the progress lacks %q:\n%s", line, progress.String())
		}
	}
	progress.Reset()
	again, err := binaries.Ensure(t.Context(), root, set, &progress)
	if err != nil || again != folder || progress.Len() > 0 {
		t.Errorf("the second call returned %s (%v) and reported %q, want %s in silence", again, err, progress.String(), folder)
	}
}

func TestEnsureResumesAnInterruptedBuild(t *testing.T) {
	root, set := checkout(t, prints)
	folder, err := binaries.Ensure(t.Context(), root, set, &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	// The linker was interrupted.
	two := filepath.Join(folder, "two")
	if err := os.Rename(two, two+".partial"); err != nil {
		t.Fatal(err)
	}
	var progress bytes.Buffer
	if _, err := binaries.Ensure(t.Context(), root, set, &progress); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(two); err != nil || strings.Contains(progress.String(), "linking one") {
		t.Errorf("the second program is missing (%v), or the first was built again:\n%s", err, progress.String())
	}
}

func TestEnsureNamesWhatDoesNotCompile(t *testing.T) {
	root, set := checkout(t, "package main\n\nfunc main() { undefinedHere() }\n")
	folder, err := binaries.Ensure(t.Context(), root, set, &bytes.Buffer{})
	if err == nil || folder != "" || !strings.Contains(err.Error(), "undefined: undefinedHere") {
		t.Errorf("returned %q and %v, want the error of the compiler", folder, err)
	}
}

func TestEnsureBuildsNothingAfterTheEndOfItsContext(t *testing.T) {
	root, set := checkout(t, prints)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := binaries.Ensure(ended, root, set, &bytes.Buffer{}); !errors.Is(err, context.Canceled) {
		t.Errorf("returned %v, want %v", err, context.Canceled)
	}
}
