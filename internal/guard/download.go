package guard

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/track"
)

const (
	// downloadPause is the first time between two attempts. It doubles up to downloadPauseLimit.
	downloadPause      = 2 * time.Second
	downloadPauseLimit = 30 * time.Second

	// downloadGrace is the time for the program to exit.
	downloadGrace = 5 * time.Second

	// downloadPatience is the maximum time without a change of the downloaded files.
	downloadPatience = 5 * time.Minute
)

// download runs a program until the files that Ironic requires exist.
type download struct {
	// images must exist and have content. Complete images are used without a download.
	images []string

	// sums are the required SHA-256 sums of the images, in hexadecimal and in their order. Without sums, record
	// counts.
	sums []string

	// record is a file with the sums of the last complete download. It is empty during a download. Existing images
	// without a record are recorded as they are.
	record string

	// stale are patterns of files that are deleted before each attempt. The downloader of Metal3 keeps an ETag and
	// the unpacked files beside the images. With an ETag and without an image it always fails, and it does not
	// replace unpacked files.
	stale []string

	// scratch is a directory that is emptied before and after each attempt, because a program that fails or is killed
	// leaves files. Otherwise the attempts fill the disk of the node. Empty means none.
	scratch string

	// patience is the maximum time in which the files of the scratch directory do not change.
	patience time.Duration

	command []string
	pause   time.Duration
	log     *slog.Logger
}

// downloadCommand runs before Ironic starts, in the image of the downloader.
func downloadCommand(ctx context.Context, arguments []string, environment Environment) (int, error) {
	d := download{pause: downloadPause, patience: downloadPatience, log: environment.logger()}
	flags := newFlags("download", environment)
	several(flags, "image", "absolute path of a file that the program creates", &d.images)
	several(flags, "sha256", "SHA-256 of the file at the same position; none, or one for each file", &d.sums)
	several(flags, "stale", "pattern of absolute paths to delete before the program runs", &d.stale)
	flags.StringVar(&d.record, "record", "", "absolute path of a file for the SHA-256 of the downloaded files")
	flags.StringVar(&d.scratch, "scratch", "", "absolute path of a directory to empty")
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	d.command = flags.Args()
	if len(d.images) == 0 || d.record == "" || len(d.command) == 0 {
		return exitUsage, errors.New("--image, --record, and the program after -- are required")
	}
	if len(d.sums) > 0 && len(d.sums) != len(d.images) {
		return exitUsage, fmt.Errorf("--sha256 is given %d times for %d files; give it for each", len(d.sums), len(d.images))
	}
	if err := d.run(ctx); err != nil {
		return exitFailure, err
	}
	return 0, nil
}

// run blocks until all images exist. It returns an error if the context ends before.
func (d download) run(ctx context.Context) error {
	if err := d.sweep(); err != nil {
		return err
	}
	for pause := d.pause; ; pause = min(2*pause, downloadPauseLimit) {
		found, err := d.present()
		if err == nil {
			return d.storeSums(found)
		}
		d.log.Info("Downloading", "because", err.Error(), "program", d.command[0])
		if err = errors.Join(d.attempt(ctx), d.sweep()); err == nil {
			found, err = d.verify(d.sums)
		}
		if err == nil {
			return d.storeSums(found)
		}
		d.log.Error("The download failed. Check the network, the proxy and spec.ironic.ramdisk, or provide the files and "+
			"delete the record", "error", err.Error(), "files", d.images, "record", d.record,
			"nextAttemptAfter", pause.String())
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w before the download succeeded: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// present returns the sums of the images if they match the pinned or recorded ones, or if there are none. A file that
// a power loss truncated has another sum.
func (d download) present() ([]string, error) {
	if len(d.sums) > 0 {
		return d.verify(d.sums)
	}
	content, err := os.ReadFile(d.record)
	if errors.Is(err, fs.ErrNotExist) {
		return d.verify(nil)
	}
	recorded := strings.Fields(string(content))
	if err == nil && len(recorded) != len(d.images) {
		err = fmt.Errorf("%s has no sums: the last download was interrupted", d.record)
	}
	if err != nil {
		return nil, err
	}
	return d.verify(recorded)
}

// verify returns the sums of the images. It returns an error for an image that does not exist, is empty, or has
// another sum than the wanted one. No wanted sums means any.
func (d download) verify(wanted []string) ([]string, error) {
	found := make([]string, len(d.images))
	for i, image := range d.images {
		switch info, err := os.Stat(image); {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular() || info.Size() == 0:
			return nil, fmt.Errorf("%s is empty or not a file", image)
		}
		var err error
		if found[i], err = sha256Of(image); err != nil {
			return nil, err
		}
		if len(wanted) > 0 && !strings.EqualFold(found[i], wanted[i]) {
			return nil, fmt.Errorf("%s has SHA-256 %s and not %s", image, found[i], strings.ToLower(wanted[i]))
		}
	}
	return found, nil
}

// storeSums stores the sums after the images have reached the disk.
func (d download) storeSums(sums []string) error {
	content := strings.Join(sums, "\n") + "\n"
	if before, err := os.ReadFile(d.record); err == nil && string(before) == content {
		return nil
	}
	for _, image := range d.images {
		target, err := filepath.EvalSymlinks(image)
		if err != nil {
			return err
		}
		if err := onDisk(target, filepath.Dir(target), filepath.Dir(image)); err != nil {
			return err
		}
	}
	return d.write(content)
}

// write replaces the record and blocks until it has reached the disk.
func (d download) write(content string) error {
	if err := track.Replace(d.record, []byte(content), 0o644); err != nil {
		return err
	}
	return onDisk(d.record, filepath.Dir(d.record))
}

// onDisk blocks until files and folders have reached the disk.
func onDisk(paths ...string) error {
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			return fmt.Errorf("writing %s to the disk: %w", path, err)
		}
	}
	return nil
}

func sha256Of(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer file.Close() //nolint:errcheck // it is only read
	sum := sha256.New()
	if _, err := io.Copy(sum, file); err != nil {
		return "", fmt.Errorf("reading %s: %w", path, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// attempt runs the program once. It first marks the images as incomplete, which survives a power loss.
func (d download) attempt(ctx context.Context) error {
	if err := d.write(""); err != nil {
		return err
	}
	for _, pattern := range d.stale {
		if err := remove(pattern); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if d.scratch != "" {
		go d.endStalled(ctx, cancel)
	}
	//nolint:gosec // The program is the one that the manifest of the pod names.
	command := exec.CommandContext(ctx, d.command[0], d.command[1:]...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = downloadGrace
	if err := command.Run(); err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = fmt.Errorf("%w: %w", err, cause)
		}
		return fmt.Errorf("running %s: %w", d.command[0], err)
	}
	return nil
}

// endStalled cancels an attempt that does not change the files of the scratch directory. It blocks until the context
// ends.
func (d download) endStalled(ctx context.Context, cancel context.CancelCauseFunc) {
	before, since := d.scratchSize(), time.Now()
	for ctx.Err() == nil {
		pause(ctx, d.patience/10)
		switch size := d.scratchSize(); {
		case size != before:
			before, since = size, time.Now()
		case time.Since(since) >= d.patience:
			cancel(fmt.Errorf("the files in %s have not changed for %s", d.scratch, d.patience))
			return
		}
	}
}

// scratchSize returns the size of all files in the scratch directory. It ignores files that the program removes
// meanwhile.
func (d download) scratchSize() (size int64) {
	_ = filepath.WalkDir(d.scratch, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // The program has removed the file.
		}
		if info, err := entry.Info(); err == nil {
			size += info.Size()
		}
		return nil
	})
	return size
}

// sweep empties the scratch directory.
func (d download) sweep() error {
	if d.scratch == "" {
		return nil
	}
	return remove(filepath.Join(d.scratch, "*"))
}

// remove deletes the files that match a pattern. It does not follow links.
func remove(pattern string) error {
	paths, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("pattern %s: %w", pattern, err)
	}
	for _, path := range paths {
		err = errors.Join(err, os.RemoveAll(path))
	}
	return err
}
