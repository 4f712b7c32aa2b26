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

// enterNetwork moves this thread into a network namespace. An empty name is where it is already.
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

// dialerIn opens connections in a network namespace; nil is the dialer of this process's own.
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

// freePort returns an error if a port is in use, and finds a free one when it is zero. Without that, the API of
// another Ironic could be taken for that of the one that starts.
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

// Place is where a program runs that starts from a root file system: a network namespace, and a writable view of the
// root file system. What is written goes to memory and is gone in the end.
type Place struct {
	// Namespace is the file of a network namespace. Empty means that of this process.
	Namespace string
	// Root is the root file system. It is not changed.
	Root string
	// Scratch is an empty folder to mount things on.
	Scratch string
	// Shared are folders of this machine that the view has as they are, by their paths in it.
	Shared map[string]string
}

// View is the folder that is the root of the program, seen from the thread that entered the place.
func (p Place) View() string { return filepath.Join(p.Scratch, "merged") }

// Enter moves this thread into the network namespace and into a new mount namespace, where it assembles the view. The
// thread must be one of thread.Own, and must call Leave whether this fails or not. It needs root.
func (p Place) Enter() error {
	if err := enterNetwork(p.Namespace); err != nil {
		return err
	}
	// The thread needs a root and working folder of its own before it may leave the mount namespace of the others.
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
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
	for inside := range p.Shared {
		if err := os.MkdirAll(filepath.Join(upper, inside), 0o755); err != nil {
			return err
		}
	}
	overlay := strings.Join([]string{"lowerdir=" + p.Root, "upperdir=" + upper, "workdir=" + work}, ",")
	if err := unix.Mount("overlay", p.View(), "overlay", unix.MS_NOSUID, overlay); err != nil {
		return fmt.Errorf("mounting the root file system %s: %w", p.Root, err)
	}
	return nil
}

// shared are the folders that are mounted as they are.
func (p Place) shared() map[string]string {
	all := map[string]string{"/dev": "/dev"}
	maps.Copy(all, p.Shared)
	return all
}

// Leave takes the view apart. What was not mounted is no error: Enter may have failed half-way.
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
