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
)

const (
	// progressEvery is how often a running step says that it still runs.
	progressEvery = 10 * time.Second

	// lockPollEvery is how often to ask for a lock that another process holds.
	lockPollEvery = 200 * time.Millisecond
)

// workshop makes things and keeps them in the cache.
type workshop struct {
	// cache is the folder that keeps what was made, checkout the top of the source tree.
	cache, checkout string

	progress io.Writer
}

// step is the making of one thing.
type step struct {
	// name is that of the thing in the cache. It ends in a key of all that the thing is made from.
	name string

	// label tells people what is being made.
	label string

	// limit is how long it may take.
	limit time.Duration

	// make writes the thing to a path that does not exist yet.
	make func(ctx context.Context, target string) error
}

// ensure returns the path of a thing, after making it when the cache has none. It is made under another name, so that
// what an interrupted call leaves never counts; of two callers one makes it and the other waits.
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
		return "", fmt.Errorf("removing what an interrupted run left: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, step.limit)
	defer cancel()
	if err := w.run(step.label, func() error { return step.make(ctx, partial) }); err != nil {
		return "", errors.Join(fmt.Errorf("%s: %w", step.label, err), os.RemoveAll(partial))
	}
	return path, os.Rename(partial, path)
}

// run does some work and tells of it while it lasts.
func (w workshop) run(label string, work func() error) error {
	started := time.Now()
	fmt.Fprintln(w.progress, label)
	done := make(chan error, 1)
	go func() { done <- work() }()
	ticker := time.NewTicker(progressEvery)
	defer ticker.Stop()
	for {
		select {
		case err := <-done:
			if err == nil {
				fmt.Fprintf(w.progress, "%s: done in %s\n", label, time.Since(started).Round(time.Second))
			}
			return err
		case <-ticker.C:
			fmt.Fprintf(w.progress, "%s: %s so far\n", label, time.Since(started).Round(time.Second))
		}
	}
}

// lock waits for a file lock. The kernel releases it when its holder ends, however it ends.
func (w workshop) lock(ctx context.Context, path, label string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	ticker := time.NewTicker(lockPollEvery)
	defer ticker.Stop()
	told := false
	for {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = file.Close() }, nil
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errors.Join(err, file.Close())
		}
		if !told {
			fmt.Fprintf(w.progress, "%s: waiting for another process that does it\n", label)
			told = true
		}
		select {
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), file.Close())
		case <-ticker.C:
		}
	}
}

// key is short enough for a name and changes with any of the parts.
func key(parts ...any) string {
	hash := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(hash, "%v\x00", part)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// contentKey changes with the name or the content of any file.
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
