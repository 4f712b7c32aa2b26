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
	// downloadPause is the time between two attempts at first. It doubles up to downloadPauseLimit.
	downloadPause      = 2 * time.Second
	downloadPauseLimit = 30 * time.Second

	// downloadGrace is how long the program may take to end.
	downloadGrace = 5 * time.Second
)

// download runs a program until it has made files that Ironic does not start without.
type download struct {
	// images must exist and have content. Complete ones are used as they are: no program runs and no network is needed.
	images []string

	// sums are the SHA-256 that the images have to have, in hexadecimal and in their order. Without any, record counts.
	sums []string

	// record is a file with the sums of the last complete download. It is empty while a download goes on. Images without
	// the file were there before this program, and are recorded as they are.
	record string

	// stale are patterns of what is deleted before each attempt. The downloader of Metal3 keeps an ETag and the unpacked
	// files beside the images: with an ETag and without an image it fails for ever, and it replaces no unpacked files.
	stale []string

	// scratch is emptied first, of what killed programs left.
	scratch string

	command []string
	pause   time.Duration
	log     *slog.Logger
}

// downloadCommand runs before Ironic starts, in the image of the downloader.
func downloadCommand(ctx context.Context, arguments []string, environment Environment) (int, error) {
	d := download{pause: downloadPause, log: environment.logger()}
	flags := newFlags("download", environment)
	several(flags, "image", "absolute path of a file that the program makes", &d.images)
	several(flags, "sha256", "SHA-256 of the file of the same place among the files; give none or one for each", &d.sums)
	several(flags, "stale", "pattern of absolute paths to delete before the program runs", &d.stale)
	flags.StringVar(&d.record, "record", "", "absolute path of a file for the SHA-256 of what was downloaded")
	flags.StringVar(&d.scratch, "scratch", "", "absolute path of a directory to empty")
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	d.command = flags.Args()
	if len(d.images) == 0 || d.record == "" || len(d.command) == 0 {
		return exitUsage, errors.New("give at least one --image, --record, and the program after --")
	}
	if len(d.sums) > 0 && len(d.sums) != len(d.images) {
		return exitUsage, fmt.Errorf("--sha256 is given %d times for %d files; give it for each", len(d.sums), len(d.images))
	}
	if err := d.run(ctx); err != nil {
		return exitFailure, err
	}
	return 0, nil
}

// run returns when all images are there. It returns an error if the context ends before.
func (d download) run(ctx context.Context) error {
	if d.scratch != "" {
		if err := remove(filepath.Join(d.scratch, "*")); err != nil {
			return err
		}
	}
	for pause := d.pause; ; pause = min(2*pause, downloadPauseLimit) {
		found, err := d.present()
		if err == nil {
			return d.remember(found)
		}
		d.log.Info("Downloading", "because", err.Error(), "program", d.command[0])
		if err = d.attempt(ctx); err == nil {
			found, err = d.verify(d.sums)
		}
		if err == nil {
			return d.remember(found)
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

// present returns the sums of the images if they are pinned, recorded, or not known yet. A file that lost a part with
// the power has another sum.
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
		err = fmt.Errorf("%s has no sums: the last download did not come to its end", d.record)
	}
	if err != nil {
		return nil, err
	}
	return d.verify(recorded)
}

// verify returns the sums of the images. It returns an error that names an image that does not exist, is empty or has
// another sum than the wanted one. Without wanted sums each sum will do.
func (d download) verify(wanted []string) ([]string, error) {
	found := make([]string, len(d.images))
	for i, image := range d.images {
		switch info, err := os.Stat(image); {
		case err != nil:
			return nil, err
		case !info.Mode().IsRegular() || info.Size() == 0:
			return nil, fmt.Errorf("%s is empty or no file", image)
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

// remember records the sums after the images have reached the disk.
func (d download) remember(sums []string) error {
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

// write replaces the record. It returns when that has reached the disk.
func (d download) write(content string) error {
	if err := track.Replace(d.record, []byte(content)); err != nil {
		return err
	}
	return onDisk(d.record, filepath.Dir(d.record))
}

// onDisk returns when files and folders have reached the disk.
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

// attempt runs the program once. From now on the images are not complete, even if the power is lost.
func (d download) attempt(ctx context.Context) error {
	if err := d.write(""); err != nil {
		return err
	}
	for _, pattern := range d.stale {
		if err := remove(pattern); err != nil {
			return err
		}
	}
	//nolint:gosec // The program is the one that the manifest of the pod names.
	command := exec.CommandContext(ctx, d.command[0], d.command[1:]...)
	command.Stdout, command.Stderr = os.Stderr, os.Stderr
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGTERM) }
	command.WaitDelay = downloadGrace
	if err := command.Run(); err != nil {
		return fmt.Errorf("running %s: %w", d.command[0], err)
	}
	return nil
}

// remove deletes what a pattern matches. Links are deleted, and not what they lead to.
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
