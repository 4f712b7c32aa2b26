package guard

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"
)

const (
	// diskInterval is the time between two checks of the disk.
	diskInterval = 10 * time.Second

	// diskPatience is how long the disk may refuse writes. Ironic keeps its database if the disk is full for a moment.
	diskPatience = time.Minute

	// diskFile is the file that a check writes. Its size requires blocks, as a change of the database does.
	diskFile     = ".gate"
	diskFileSize = 16 << 10
)

// disk checks whether the disk of a database can be written. On a full or read-only disk, Ironic refuses all changes of
// its hosts, and still answers the guard, because its checks only read.
type disk struct {
	directory string
	interval  time.Duration
	write     func(directory string) error
	now       func() time.Time

	// failing is the time of the first refused write since the last successful one. Zero if there is none.
	failing time.Time
}

func newDisk(directory string) disk {
	return disk{directory: directory, interval: diskInterval, write: writeAndDelete, now: time.Now}
}

// watch checks the disk until the context ends, or until a check returns an error, which it sends. Without a directory
// it does nothing.
func (d *disk) watch(ctx context.Context, failures chan<- error) {
	for d.directory != "" && ctx.Err() == nil {
		pause(ctx, d.interval)
		if err := d.check(); err != nil {
			failures <- err
			return
		}
	}
}

// check returns an error if the disk has refused all writes for diskPatience. Other errors do not count: for example,
// the directory does not exist until the program creates it.
func (d *disk) check() error {
	err := d.write(d.directory)
	now := d.now()
	switch {
	case err == nil:
		d.failing = time.Time{}
	case !isRefusal(err):
	case d.failing.IsZero():
		d.failing = now
	case now.Sub(d.failing) >= diskPatience:
		return fmt.Errorf("the disk of the database has refused all writes for %s, so the program was killed and has to "+
			"start from nothing: %w", diskPatience, err)
	}
	return nil
}

// isRefusal returns true for errors of a disk that is full, read-only or broken.
func isRefusal(err error) bool {
	refusals := []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EROFS, syscall.EIO}
	return slices.ContainsFunc(refusals, func(refusal error) bool { return errors.Is(err, refusal) })
}

// writeAndDelete writes a file to the disk, and deletes it.
func writeAndDelete(directory string) error {
	path := filepath.Join(directory, diskFile)
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(make([]byte, diskFileSize))
	return errors.Join(err, file.Sync(), file.Close(), os.Remove(path))
}
