package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// devices are the devices of a machine, without disks, which are those of the computer.
var devices = []struct {
	name         string
	major, minor uint32
}{
	{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"kmsg", 1, 11}, {"tty", 5, 0},
}

func makeDevices(folder, terminal string) error {
	for _, device := range devices {
		file := filepath.Join(folder, device.name)
		number := int(unix.Mkdev(device.major, device.minor)) //nolint:gosec // The numbers are the small ones above.
		if err := unix.Mknod(file, unix.S_IFCHR|0o666, number); err != nil {
			return fmt.Errorf("making /dev/%s: %w", device.name, err)
		}
		// The umask may have changed the mode.
		if err := os.Chmod(file, 0o666); err != nil {
			return fmt.Errorf("making /dev/%s: %w", device.name, err)
		}
	}
	links := map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"ptmx": "pts/ptmx",
	}
	for name, target := range links {
		if err := os.Symlink(target, filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("making /dev/%s: %w", name, err)
		}
	}
	console := filepath.Join(folder, "console")
	if err := os.WriteFile(console, nil, 0o600); err != nil {
		return fmt.Errorf("creating /dev/console: %w", err)
	}
	if err := unix.Mount(terminal, console, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("creating /dev/console of %s: %w", terminal, err)
	}
	return nil
}

// silence hides the file that can restart the computer.
func silence() error {
	const file = "/proc/sysrq-trigger"
	if _, err := os.Stat(file); err != nil {
		return nil
	}
	if err := unix.Mount("/dev/null", file, "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("hiding %s: %w", file, err)
	}
	return nil
}
