// Package binaries builds the programs that the tests, the demo and the developer tools run: a control plane, the
// Cluster API managers and the code generators.
//
// All programs are built from Go modules, so the only download is from the module proxy. Each set of programs is pinned
// by a module under hack/. The cache outside of the checkout has a key of the go.mod, go.sum and source of this module,
// the flags and the Go version: a second call costs one hash. If two callers race, a file lock lets one build and the
// other wait.
//
// A program that no module pins cannot be built.
package binaries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"time"
)

// Program is one executable of a set.
type Program struct {
	Name    string
	Package string
}

// Set is a group of programs that one module pins.
type Set struct {
	// Name is the name of the module's folder under hack/.
	Name     string
	LDFlags  string
	Tags     string
	Programs []Program
}

// progressEvery is the interval between messages of a running build.
const progressEvery = 10 * time.Second

// Ensure returns the folder with the programs of a set, and builds them if the cache lacks them. Root is the top of the
// checkout. Progress gets messages, and none if the cache has the programs.
func Ensure(ctx context.Context, root string, set Set, progress io.Writer) (string, error) {
	key, err := set.key(root)
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, set.Name+"-"+key)
	if set.complete(dir) {
		return dir, nil
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("locking %s: %w", dir, err)
	}
	defer unlock()
	if set.complete(dir) {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for i, program := range set.Programs {
		step := build{set: set, program: program, source: filepath.Join(root, "hack", set.Name), target: dir,
			label: fmt.Sprintf("[%s %d/%d] building %s", set.Name, i+1, len(set.Programs), program.Name)}
		if err := step.run(ctx, progress); err != nil {
			return "", err
		}
	}
	return dir, nil
}

// CacheDir returns the folder outside of the checkout with the built programs: METAL3_CACHE, or a folder of the user's
// cache.
func CacheDir() (string, error) {
	if dir := os.Getenv("METAL3_CACHE"); dir != "" {
		return dir, os.MkdirAll(dir, 0o755)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (set METAL3_CACHE to choose one): %w", err)
	}
	dir := filepath.Join(base, "cluster-api-provider-metal3")
	return dir, os.MkdirAll(dir, 0o755)
}

// Root returns the top of the checkout, from the working directory, which for a test is the folder of its package.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "hack", "controlplane", "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("not inside a checkout of the provider: no hack/controlplane/go.mod in any parent folder")
		}
		dir = parent
	}
}

func (s Set) key(root string) (string, error) {
	hash := sha256.New()
	names := []string{filepath.Join(root, "hack", s.Name, "go.mod"), filepath.Join(root, "hack", s.Name, "go.sum")}
	own, err := filepath.Glob(filepath.Join(root, "hack", s.Name, "*.go"))
	if err != nil {
		return "", err
	}
	for _, name := range append(names, own...) {
		content, err := os.ReadFile(name)
		if err != nil {
			return "", fmt.Errorf("reading what pins the set %s: %w", s.Name, err)
		}
		hash.Write(content)
	}
	fmt.Fprintln(hash, s, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

func (s Set) complete(dir string) bool {
	for _, program := range s.Programs {
		if _, err := os.Stat(filepath.Join(dir, program.Name)); err != nil {
			return false
		}
	}
	return true
}

// build is the build of one program: from the module in the source folder into the target folder.
type build struct {
	set            Set
	program        Program
	source, target string
	label          string
}

// run builds under a temporary name first, so that an interrupted build never counts as complete.
func (b build) run(ctx context.Context, progress io.Writer) error {
	target := filepath.Join(b.target, b.program.Name)
	if _, err := os.Stat(target); err == nil {
		return nil
	}
	partial := target + ".partial"
	command := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags="+b.set.Tags,
		"-ldflags=-s -w "+b.set.LDFlags, "-o", partial, b.program.Package)
	command.Dir = b.source
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output

	started := time.Now()
	fmt.Fprintln(progress, b.label)
	if err := runWithProgress(command, b.label, started, progress); err != nil {
		return fmt.Errorf("building %s: %w\n%s", b.program.Package, err, output.String())
	}
	fmt.Fprintf(progress, "%s: done in %s\n", b.label, time.Since(started).Round(time.Second))
	return os.Rename(partial, target)
}

func runWithProgress(command *exec.Cmd, label string, started time.Time, progress io.Writer) error {
	if err := command.Start(); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- command.Wait() }()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			fmt.Fprintf(progress, "%s: %s so far\n", label, time.Since(started).Round(time.Second))
		}
	}
}

func lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
