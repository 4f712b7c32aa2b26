package network

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// namespaces is the folder of ip(8), so that users can run `ip netns exec`.
const namespaces = "/run/netns"

// Path returns the file of a namespace.
func Path(name string) string { return filepath.Join(namespaces, name) }

// Within calls a function inside a namespace. Goroutines that it starts are outside. A thread that cannot be restored
// ends with its goroutine, so that no other goroutine runs in the wrong namespace.
func Within(name string, do func() error) error {
	target, err := netns.GetFromName(name)
	if err != nil {
		return fmt.Errorf("opening network namespace %s: %w", name, err)
	}
	defer func() { _ = target.Close() }()
	return within(func() error { return netns.Set(target) }, do)
}

// within calls a function on a thread that another function moved to a namespace.
func within(enter, do func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		home, err := netns.Get()
		if err != nil {
			runtime.UnlockOSThread()
			result <- err
			return
		}
		defer func() { _ = home.Close() }()
		if err = enter(); err == nil {
			err = do()
		}
		// A goroutine that ends while it is locked ends its thread.
		if restored := netns.Set(home); restored == nil {
			runtime.UnlockOSThread()
		}
		result <- err
	}()
	return <-result
}

// create creates a namespace, if it does not exist.
func create(name string) error {
	if _, err := os.Stat(Path(name)); err == nil {
		return nil
	}
	err := within(func() error {
		handle, err := netns.NewNamed(name)
		if err != nil {
			return err
		}
		return handle.Close()
	}, func() error { return nil })
	if err != nil {
		return errors.Join(fmt.Errorf("creating network namespace %s (this needs root): %w", name, err), remove(name))
	}
	return nil
}

// remove removes the name of a namespace. The kernel deletes the namespace after its last process, with its interfaces.
func remove(name string) error {
	err := unix.Unmount(Path(name), unix.MNT_DETACH)
	// EINVAL means that nothing is mounted, after an interrupted creation.
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("unmounting network namespace %s: %w", name, err)
	}
	if err := os.Remove(Path(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("removing network namespace %s: %w", name, err)
	}
	return nil
}

// namesOf returns the namespaces of a lab, the machines before the switch.
func namesOf(lab string) ([]string, error) {
	entries, err := os.ReadDir(namespaces)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("listing network namespaces: %w", err)
	}
	var names []string
	for _, entry := range entries {
		if Belongs(lab, entry.Name()) {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	return names, nil
}
