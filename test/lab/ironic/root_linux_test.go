package ironic

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

func TestEnsureDirFillsOnce(t *testing.T) {
	t.Setenv("METAL3_CACHE", t.TempDir())
	var filled atomic.Int32
	fill := func(partial string) error {
		filled.Add(1)
		return os.WriteFile(filepath.Join(partial, "file"), []byte("content"), 0o600)
	}
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			dir, err := ensureDir("thing", fill)
			if err != nil {
				t.Error(err)
				return
			}
			if content, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(content) != "content" {
				t.Errorf("got %q, %v", content, err)
			}
		})
	}
	callers.Wait()
	if filled.Load() != 1 {
		t.Errorf("filled %d times", filled.Load())
	}
}

func TestEnsureDirStartsAgainAfterAFailure(t *testing.T) {
	t.Setenv("METAL3_CACHE", t.TempDir())
	broken := errors.New("no network")
	_, err := ensureDir("thing", func(partial string) error {
		return errors.Join(os.WriteFile(filepath.Join(partial, "half"), nil, 0o600), broken)
	})
	if !errors.Is(err, broken) {
		t.Fatalf("got %v", err)
	}
	dir, err := ensureDir("thing", func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%s holds %v, %v", dir, left, err)
	}
}

func TestLinkTree(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "copy")
	err := errors.Join(
		os.MkdirAll(filepath.Join(from, "a", "b"), 0o700),
		os.Chmod(filepath.Join(from, "a"), 0o777|os.ModeSticky),
		os.WriteFile(filepath.Join(from, "a", "b", "file"), []byte("content"), 0o640),
		os.Symlink("b/file", filepath.Join(from, "a", "link")),
		linkTree(from, to),
	)
	if err != nil {
		t.Fatal(err)
	}
	original, copied := stat(t, filepath.Join(from, "a", "b", "file")), stat(t, filepath.Join(to, "a", "b", "file"))
	if !os.SameFile(original, copied) {
		t.Error("the file was copied, not linked")
	}
	if mode := stat(t, filepath.Join(to, "a")).Mode(); mode.Perm() != 0o777 || mode&os.ModeSticky == 0 {
		t.Errorf("the folder has mode %s", mode)
	}
	if target, err := os.Readlink(filepath.Join(to, "a", "link")); err != nil || target != "b/file" {
		t.Errorf("the link points to %q, %v", target, err)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestCorrect(t *testing.T) {
	for name, test := range map[string]struct{ before, after, said string }{
		"faulty":  {"# before\n" + corrections[0].old + "# after\n", "# before\n" + corrections[0].new + "# after\n", ""},
		"changed": {"# another release\n", "# another release\n", corrections[0].reason},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, corrections[0].file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(test.before), 0o600)); err != nil {
				t.Fatal(err)
			}
			var progress strings.Builder
			if err := correct(dir, &progress); err != nil {
				t.Fatal(err)
			}
			if content, err := os.ReadFile(path); err != nil || string(content) != test.after {
				t.Errorf("got %q, %v", content, err)
			}
			if !strings.Contains(progress.String(), test.said) || (test.said == "") != (progress.Len() == 0) {
				t.Errorf("said %q", progress.String())
			}
		})
	}
	if err := correct(t.TempDir(), io.Discard); err == nil {
		t.Error("a folder without Ironic was corrected")
	}
}

func TestCheckVersion(t *testing.T) {
	for name, test := range map[string]struct {
		installed string
		refused   bool
	}{
		"the version of the lab": {"ironic-29.0.5.egg-info", false},
		"a newer one":            {"ironic-32.0.0.egg-info", true},
		"a client of Ironic":     {"ironic_inspector_client-29.0.0.egg-info", true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.MkdirAll(filepath.Join(dir, pythonPackages, test.installed), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := checkVersion(dir); (err != nil) != test.refused {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestInstall(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to change the owner of a folder")
	}
	dir := t.TempDir()
	if err := install(dir); err != nil {
		t.Fatal(err)
	}
	if mode := stat(t, filepath.Join(dir, EntryPoint)).Mode(); mode&0o111 != 0o111 {
		t.Errorf("the entry point has mode %s", mode)
	}
	status, isUnix := stat(t, filepath.Join(dir, StateDir)).Sys().(*syscall.Stat_t)
	if !isUnix || status.Uid != UserID {
		t.Errorf("the folder that Ironic writes to is owned by %v", status)
	}
}

func TestEnsureRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to build a root file system")
	}
	first, key, err := EnsureRoot(t.Context(), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	if filepath.Base(first) != "ironic-"+key {
		t.Errorf("key %s of %s", key, first)
	}
	began := time.Now()
	if second, _, err := EnsureRoot(t.Context(), t.Output()); err != nil || second != first {
		t.Errorf("got %s and %s, %v", first, second, err)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("the second call took %s", took)
	}
	for _, path := range []string{EntryPoint, "/usr/bin/ironic", "/usr/bin/ironic-dbsync", "/usr/bin/genisoimage"} {
		if mode := stat(t, filepath.Join(first, path)).Mode(); mode&0o111 == 0 {
			t.Errorf("%s has mode %s", path, mode)
		}
	}
	for _, path := range []string{"var/cache/apt/archives", "usr/share/locale/de", "etc/ironic"} {
		if _, err := os.Stat(filepath.Join(first, path)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s was left: %v", path, err)
		}
	}
}
