// Package binaries builds the programs that the tests, the demo and the developer tools run: a control plane, the
// Cluster API managers and the code generators.
//
// All programs are built from Go modules, so the only download is from the module proxy. Each set of programs is pinned
// by a module under hack/. The cache outside of the checkout has a key of the go.mod, go.sum and source of this module,
// the flags and the Go version: a second call costs one hash. If two callers race, a file lock lets one build and the
// other wait.
//
// Compiling takes most of the time of a first run. Sets that use the same release of Kubernetes' libraries therefore
// require the same versions of what these import: Go compiles a package once for all of them. The Makefile sets the
// flags of these builds for everything else.
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
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
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

// progressEvery is the interval between the reports of Await.
const progressEvery = 10 * time.Second

// linkers is the limit of linkers at the same time. A linker of Kubernetes needs more than a gigabyte of memory.
const linkers = 4

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
	if len(set.missing(dir)) == 0 {
		return dir, nil
	}
	unlock, err := Lock(dir + ".lock")
	if err != nil {
		return "", fmt.Errorf("locking %s: %w", dir, err)
	}
	defer unlock()
	if len(set.missing(dir)) == 0 {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	step := build{set: set, source: filepath.Join(root, "hack", set.Name), target: dir, progress: progress}
	if err := step.run(ctx); err != nil {
		return "", err
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

// missing returns the programs of the set that a folder lacks.
func (s Set) missing(dir string) []Program {
	return slices.DeleteFunc(slices.Clone(s.Programs), func(program Program) bool {
		_, err := os.Stat(filepath.Join(dir, program.Name))
		return err == nil
	})
}

// build is the build of a set: from the module in the source folder into the target folder.
type build struct {
	set            Set
	source, target string

	// writing guards progress, which parallel linkers write to.
	writing  sync.Mutex
	progress io.Writer
}

// run compiles the packages of all missing programs first, which occupies all processors, and then links. The linker
// works on one processor most of the time, so programs are linked in parallel.
func (b *build) run(ctx context.Context) error {
	missing := b.set.missing(b.target)
	names, packages := make([]string, len(missing)), make([]string, len(missing))
	for i, program := range missing {
		names[i], packages[i] = program.Name, program.Package
	}
	arguments := append([]string{"list", "-export", "-f={{.ImportPath}}", "-trimpath", "-tags=" + b.set.Tags}, packages...)
	label := fmt.Sprintf("[%s] compiling %s", b.set.Name, strings.Join(names, ", "))
	if err := b.goCommand(ctx, label, arguments); err != nil {
		return err
	}
	links, ctx := errgroup.WithContext(ctx)
	links.SetLimit(min(runtime.NumCPU(), linkers))
	for i, program := range missing {
		label := fmt.Sprintf("[%s %d/%d] linking %s", b.set.Name, i+1, len(missing), program.Name)
		links.Go(func() error { return b.link(ctx, label, program) })
	}
	return links.Wait()
}

// link writes to a temporary name first, so that an interrupted build never counts as complete.
func (b *build) link(ctx context.Context, label string, program Program) error {
	target := filepath.Join(b.target, program.Name)
	partial := target + ".partial"
	if err := b.goCommand(ctx, label, []string{
		"build", "-trimpath", "-tags=" + b.set.Tags, "-ldflags=-s -w " + b.set.LDFlags, "-o", partial, program.Package,
	}); err != nil {
		return err
	}
	return os.Rename(partial, target)
}

// goCommand runs the go command in the module of the set, and reports the progress under a label.
func (b *build) goCommand(ctx context.Context, label string, arguments []string) error {
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = b.source
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false", "GOWORK=off")
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output

	started := time.Now()
	b.report("%s", label)
	if err := Await(command.Run, func(passed time.Duration) { b.report("%s: %s so far", label, passed) }); err != nil {
		return fmt.Errorf("%s: %w\n%s", label, err, output.String())
	}
	b.report("%s: done in %s", label, time.Since(started).Round(time.Second))
	return nil
}

// Await runs work, and reports the time that passed every ten seconds. It blocks until work returns.
func Await(work func() error, report func(passed time.Duration)) error {
	started := time.Now()
	done := make(chan error, 1)
	go func() { done <- work() }()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			return err
		case <-ticker.C:
			report(time.Since(started).Round(time.Second))
		}
	}
}

func (b *build) report(format string, values ...any) {
	b.writing.Lock()
	defer b.writing.Unlock()
	fmt.Fprintf(b.progress, format+"\n", values...)
}

// Lock blocks until the caller has the lock of a file. The lock ends with the process, or with unlock.
func Lock(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return func() { _ = file.Close() }, nil
}
