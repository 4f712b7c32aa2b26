package ironic

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// enterNetwork moves this thread into a network namespace. An empty name means the current one.
func enterNetwork(namespace string) error {
	if namespace == "" {
		return nil
	}
	file, err := os.Open(namespace)
	if err != nil {
		return fmt.Errorf("opening the network namespace: %w", err)
	}
	defer func() { _ = file.Close() }()
	if err := unix.Setns(int(file.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("entering the network namespace %s: %w", namespace, err)
	}
	return nil
}

// dialerIn opens connections in a network namespace. Nil is the dialer of this process.
func dialerIn(namespace string) Dialer {
	if namespace == "" {
		return nil
	}
	return func(ctx context.Context, network, address string) (connection net.Conn, err error) {
		err = thread.Own(func() error {
			if err := enterNetwork(namespace); err != nil {
				return err
			}
			connection, err = new(net.Dialer).DialContext(ctx, network, address)
			return err
		})
		return connection, err
	}
}

// freePort returns an error if a port is in use, and returns a free one for zero. Otherwise the API of another Ironic
// could be taken for the starting one.
func freePort(namespace string, address netip.Addr, want int) (port int, err error) {
	err = thread.Own(func() error {
		if err := enterNetwork(namespace); err != nil {
			return err
		}
		listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp",
			net.JoinHostPort(address.String(), strconv.Itoa(want)))
		if err != nil {
			return err
		}
		if address, ok := listener.Addr().(*net.TCPAddr); ok {
			port = address.Port
		}
		return listener.Close()
	})
	return port, err
}

// Place is the environment of a program of a root file system: a network namespace, and a writable view of the root
// file system in memory.
type Place struct {
	// Namespace is the file of a network namespace. Empty means that of this process.
	Namespace string
	// Root is the root file system. It is not changed.
	Root string
	// Scratch is an empty folder for mounts.
	Scratch string
	// Shared are folders and files of this machine in the view, by their paths in it.
	Shared map[string]string
}

// View returns the folder that is the root of the program, on the thread that entered the place.
func (p Place) View() string { return filepath.Join(p.Scratch, "merged") }

// Enter moves this thread into the network namespace and into a new mount namespace, and mounts the view. The thread
// must be one of thread.Own, and must call Leave also after an error. It requires root.
func (p Place) Enter() error {
	if err := enterNetwork(p.Namespace); err != nil {
		return err
	}
	// The thread requires its own root and working folder before it may leave the shared mount namespace.
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("creating a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := p.mountRoot(); err != nil {
		return err
	}
	if err := unix.Mount("proc", filepath.Join(p.View(), "proc"), "proc", unix.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	for inside, folder := range p.shared() {
		if err := unix.Mount(folder, filepath.Join(p.View(), inside), "", unix.MS_BIND, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", inside, err)
		}
	}
	return nil
}

func (p Place) mountRoot() error {
	if err := unix.Mount("tmpfs", p.Scratch, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return fmt.Errorf("mounting memory on %s: %w", p.Scratch, err)
	}
	upper, work := filepath.Join(p.Scratch, "upper"), filepath.Join(p.Scratch, "work")
	for _, dir := range []string{upper, work, p.View()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	for inside, source := range p.Shared {
		if err := mountPoint(filepath.Join(upper, inside), source); err != nil {
			return err
		}
	}
	overlay := strings.Join([]string{"lowerdir=" + p.Root, "upperdir=" + upper, "workdir=" + work}, ",")
	if err := unix.Mount("overlay", p.View(), "overlay", unix.MS_NOSUID, overlay); err != nil {
		return fmt.Errorf("mounting the root file system %s: %w", p.Root, err)
	}
	return nil
}

// mountPoint creates an empty folder or file, as the source is.
func mountPoint(target, source string) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.MkdirAll(target, 0o755)
	}
	return errors.Join(os.MkdirAll(filepath.Dir(target), 0o755), os.WriteFile(target, nil, 0o600))
}

// shared returns the folders and files that are mounted unchanged.
func (p Place) shared() map[string]string {
	all := map[string]string{"/dev": "/dev"}
	maps.Copy(all, p.Shared)
	return all
}

// Leave unmounts the view. A missing mount is no error: Enter may have failed.
func (p Place) Leave() error {
	mounts := []string{filepath.Join(p.View(), "proc"), p.View(), p.Scratch}
	for inside := range p.shared() {
		mounts = append([]string{filepath.Join(p.View(), inside)}, mounts...)
	}
	for _, dir := range mounts {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil &&
			!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmounting %s: %w", dir, err)
		}
	}
	return nil
}
