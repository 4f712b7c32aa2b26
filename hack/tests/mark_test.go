package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// TestMark requires that a mark depends on the content and the names of files, and not on the place of their folder.
func TestMark(t *testing.T) {
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	markOf := func(name, content string) mark {
		t.Helper()
		folder := filepath.Join(t.TempDir(), "inputs")
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		made, err := newMark("test", folder)
		if err != nil {
			t.Fatal(err)
		}
		return made
	}
	first := markOf("file", "content")
	if got := markOf("file", "content"); got != first {
		t.Errorf("got %v and %v for the same files in two places", first, got)
	}
	if got := markOf("file", "changed"); got == first {
		t.Errorf("got %v for another content too", got)
	}
	if got := markOf("renamed", "content"); got == first {
		t.Errorf("got %v for another name too", got)
	}
}
