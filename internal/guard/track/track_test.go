package track_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

func TestEnsure(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "state", track.Armed)
	for _, want := range []bool{false, true, true, false} {
		if err := track.Ensure(path, want); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil || string(content) != track.Value(want) {
			t.Errorf("got %q, %v", content, err)
		}
	}
	for _, damage := range []string{"", "1", "11\n", "perhaps", "0\n\n"} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := track.Ensure(path, true); err != nil {
			t.Fatal(err)
		}
		if content, _ := os.ReadFile(path); string(content) != "1\n" {
			t.Errorf("%q was not repaired but is %q", damage, content)
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("files are left behind: %v, %v", entries, err)
	}
}

func TestEnsureKeepsAnUnchangedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), track.Armed)
	if err := track.Ensure(path, true); err != nil {
		t.Fatal(err)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := track.Ensure(path, true); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("the file was replaced: %v", err)
	}
}

func TestReplaceReturnsErrors(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	blocked := filepath.Join(folder, "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := track.Replace(filepath.Join(blocked, "below"), nil, 0o644); err == nil {
		t.Error("a file became a directory")
	}
	directory := filepath.Join(folder, "directory")
	if err := os.MkdirAll(filepath.Join(directory, "full"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := track.Replace(directory, []byte("x"), 0o644); err == nil {
		t.Error("a directory became a file")
	}
	if entries, _ := os.ReadDir(folder); len(entries) != 2 {
		t.Errorf("files are left behind: %v", entries)
	}
}

// TestReadersSeeAllOrNothing reads a file during writes.
func TestReadersSeeAllOrNothing(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	long, short := make([]byte, 1<<16), []byte("short")
	if err := track.Replace(path, long, 0o640); err != nil {
		t.Fatal(err)
	}
	var writer sync.WaitGroup
	writer.Go(func() {
		for i := range 200 {
			content := long
			if i%2 == 0 {
				content = short
			}
			if err := track.Replace(path, content, 0o640); err != nil {
				t.Error(err)
			}
		}
	})
	for range 500 {
		if content, err := os.ReadFile(path); err != nil || (len(content) != len(long) && len(content) != len(short)) {
			t.Fatalf("read %d bytes, %v", len(content), err)
		}
	}
	writer.Wait()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info, err)
	}
}
