package image

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// lockPollEvery is the interval of attempts to get a lock of another process.
const lockPollEvery = 200 * time.Millisecond

// workshop builds things and keeps them in the cache.
type workshop struct {
	// cache is the folder of the cache, checkout the top of the source tree.
	cache, checkout string

	progress io.Writer
}

// step builds one thing.
type step struct {
	// name is the name in the cache. It ends in a key of all inputs.
	name string

	// label describes the step in messages.
	label string

	// limit is the time limit.
	limit time.Duration

	// make writes the thing to a path that does not exist.
	make func(ctx context.Context, target string) error
}

// ensure returns the path of a thing, and builds it if the cache lacks it. It builds under another name, so that an
// interrupted build never counts. If two callers race, one builds and the other waits.
func (w workshop) ensure(ctx context.Context, step step) (string, error) {
	path := filepath.Join(w.cache, step.name)
	if present, err := exists(path); present || err != nil {
		return path, err
	}
	unlock, err := w.lock(ctx, path+".lock", step.label)
	if err != nil {
		return "", fmt.Errorf("locking %s: %w", path, err)
	}
	defer unlock()
	if present, err := exists(path); present || err != nil {
		return path, err
	}
	if err := ctx.Err(); err != nil {
		return "", fmt.Errorf("%s: %w", step.label, err)
	}
	partial := path + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", fmt.Errorf("removing the files of an interrupted run: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, step.limit)
	defer cancel()
	if err := w.run(step.label, func() error { return step.make(ctx, partial) }); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", step.label, err), os.RemoveAll(partial))
	}
	return path, os.Rename(partial, path)
}

// run calls a function and prints messages meanwhile.
func (w workshop) run(label string, work func() error) error {
	started := time.Now()
	fmt.Fprintln(w.progress, label)
	err := binaries.Await(work, func(passed time.Duration) { fmt.Fprintf(w.progress, "%s: %s so far\n", label, passed) })
	if err == nil {
		fmt.Fprintf(w.progress, "%s: done in %s\n", label, time.Since(started).Round(time.Second))
	}
	return err
}

// lock waits for a file lock. The kernel releases it when its holder ends.
func (w workshop) lock(ctx context.Context, path, label string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockPollEvery)
	defer ticker.Stop()
	waiting := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		if !waiting {
			fmt.Fprintf(w.progress, "%s: waiting for another process\n", label)
			waiting = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-ticker.C:
		}
	}
}

// key returns a hash of the parts that is short enough for a name.
func key(parts ...any) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%v\x00", part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// contentKey returns a hash of the names and contents of files.
func contentKey(trees ...embed.FS) (string, error) {
	var content []any
	for _, tree := range trees {
		err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			text, err := tree.ReadFile(name)
			content = append(content, name, string(text))
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return key(content...), nil
}

func exists(path string) (bool, error) {
	_, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}
