package guard

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/guard/process"
)

// TestDiskThatRefusesWrites has a disk whose writes fail at some seconds, and expects an error only after a minute of
// failures.
func TestDiskThatRefusesWrites(t *testing.T) {
	t.Parallel()
	full := &os.PathError{Op: "write", Path: diskFile, Err: syscall.ENOSPC}
	type write struct {
		second int
		err    error
	}
	for name, test := range map[string]struct {
		reason string
		writes []write
		want   bool
	}{
		"short": {"the disk was full for a moment", []write{{0, full}, {59, full}}, false},
		"long":  {"no write has succeeded for a minute", []write{{0, full}, {30, full}, {60, full}}, true},
		"read-only": {"the file system had an error", []write{
			{0, fmt.Errorf("creating: %w", syscall.EROFS)}, {60, errors.Join(syscall.EIO, syscall.EROFS)},
		}, true},
		"success": {"the disk had space meanwhile", []write{{0, full}, {30, nil}, {40, full}, {60, full}, {99, full}}, false},
		"again":   {"the disk is full again", []write{{0, full}, {30, nil}, {40, full}, {100, full}}, true},
		"missing": {"Ironic has not created the directory", []write{{0, syscall.ENOENT}, {600, syscall.ENOENT}}, false},
		"first":   {"one failure is not a minute", []write{{0, nil}, {600, full}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checked := newDisk("/data/db")
			var err error
			for _, each := range test.writes {
				checked.write = func(string) error { return each.err }
				checked.now = func() time.Time { return time.Unix(int64(each.second), 0) }
				if err != nil {
					t.Fatalf("the check failed before the last one: %v", err)
				}
				err = checked.check()
			}
			if (err != nil) != test.want {
				t.Errorf("%s: %v", test.reason, err)
			}
		})
	}
}

// TestFullDisk fills a disk, empties it, and makes it read-only.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	folder := smallDisk(t)
	noError(t, writeAndDelete(folder))
	fill := filepath.Join(folder, "other")
	if err := os.WriteFile(fill, make([]byte, 1<<20), 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("filling the disk: %v", err)
	}
	if err := writeAndDelete(folder); !errors.Is(err, syscall.ENOSPC) || !isRefusal(err) {
		t.Errorf("a full disk: %v", err)
	}
	noError(t, os.Remove(fill))
	noError(t, writeAndDelete(folder))
	files, err := os.ReadDir(folder)
	if err != nil || len(files) > 0 {
		t.Errorf("the checks left %v, %v", files, err)
	}
	noError(t, unix.Mount("", folder, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	if err := writeAndDelete(folder); !errors.Is(err, syscall.EROFS) || !isRefusal(err) {
		t.Errorf("a read-only disk: %v", err)
	}
}

// TestGateOnAFullDisk requires that the gate kills its program when a full disk has refused writes for a minute of its
// clock, and fails with the reason.
func TestGateOnAFullDisk(t *testing.T) {
	t.Parallel()
	folder, started := smallDisk(t), filepath.Join(t.TempDir(), "started")
	_ = os.WriteFile(filepath.Join(folder, "other"), make([]byte, 1<<20), 0o600)
	p := &passage{
		Gate: Gate{
			UntilLost: true, Interface: "lo", Virtual: []netip.Addr{netip.MustParseAddr("172.22.0.2")},
			Command: []string{"/bin/sh", "-c", "touch $0; exec sleep 3600", started}, Term: filepath.Join(folder, "term"),
		},
		log: slog.New(slog.DiscardHandler), reaper: process.NewReaper(),
	}
	t.Cleanup(p.reaper.Close)
	clock := time.Now()
	p.disk = disk{directory: folder, interval: time.Millisecond,
		write: func(directory string) error {
			if _, err := os.Stat(started); err != nil {
				return err
			}
			return writeAndDelete(directory)
		},
		now: func() time.Time {
			clock = clock.Add(diskInterval)
			return clock
		},
	}
	code, err := p.run(t.Context())
	if code != exitFailure || !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "refused all writes for 1m0s") {
		t.Errorf("the gate ended with %d, %v", code, err)
	}
	<-p.child.Done()
}

// smallDisk mounts a file system in memory until the test ends.
func smallDisk(t *testing.T) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("requires root to mount a file system")
	}
	folder := t.TempDir()
	noError(t, unix.Mount("tmpfs", folder, "tmpfs", unix.MS_NOSUID, "size=64k"))
	t.Cleanup(func() { noError(t, unix.Unmount(folder, unix.MNT_DETACH)) })
	return folder
}
