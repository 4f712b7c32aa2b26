package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
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
	several(flags, "stale", "pattern of absolute paths to delete before the program runs", &d.stale)
	flags.StringVar(&d.scratch, "scratch", "", "absolute path of a directory to empty")
	if err := flags.Parse(arguments); err != nil {
		return exitUsage, err
	}
	d.command = flags.Args()
	if len(d.images) == 0 || len(d.command) == 0 {
		return exitUsage, errors.New("give at least one --image, and the program after --")
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
		missing := d.missing()
		if missing == nil {
			return nil
		}
		d.log.Info("Downloading", "because", missing.Error(), "program", d.command[0])
		err := d.attempt(ctx)
		if err == nil {
			err = d.missing()
		}
		if err == nil {
			return nil
		}
		d.log.Error("The download failed. Check the network, the proxy and spec.ironic.ramdisk, or provide the files",
			"error", err.Error(), "files", d.images, "nextAttemptAfter", pause.String())
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w before the download succeeded: %w", context.Cause(ctx), err)
		case <-time.After(pause):
		}
	}
}

// missing returns an error that names an image that does not exist or is empty.
func (d download) missing() error {
	for _, image := range d.images {
		switch info, err := os.Stat(image); {
		case err != nil:
			return err
		case !info.Mode().IsRegular() || info.Size() == 0:
			return fmt.Errorf("%s is empty or no file", image)
		}
	}
	return nil
}

// attempt runs the program once.
func (d download) attempt(ctx context.Context) error {
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
