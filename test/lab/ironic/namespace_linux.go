package ironic

import (
	"context"
	"errors"
	"fmt"
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

// freePort makes sure that nobody listens on a port, or finds a free one when it is zero. Without that, the API of
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

// place is where one Ironic runs: a network namespace, and a writable view of a root file system. What is written goes
// to memory, mounted on the scratch folder.
type place struct{ namespace, root, scratch string }

func (p place) merged() string { return filepath.Join(p.scratch, "merged") }

// enter moves this thread into the network namespace and into a new mount namespace, where it assembles the view.
func (p place) enter() error {
	if err := enterNetwork(p.namespace); err != nil {
		return err
	}
	// The thread needs a root and working folder of its own before it may leave the mount namespace of the others.
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return fmt.Errorf("making a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("making the mounts private: %w", err)
	}
	if err := unix.Mount("tmpfs", p.scratch, "tmpfs", unix.MS_NOSUID, "mode=755"); err != nil {
		return fmt.Errorf("mounting memory on %s: %w", p.scratch, err)
	}
	upper, work := filepath.Join(p.scratch, "upper"), filepath.Join(p.scratch, "work")
	for _, dir := range []string{upper, work, p.merged()} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			return err
		}
	}
	overlay := strings.Join([]string{"lowerdir=" + p.root, "upperdir=" + upper, "workdir=" + work}, ",")
	if err := unix.Mount("overlay", p.merged(), "overlay", unix.MS_NOSUID, overlay); err != nil {
		return fmt.Errorf("mounting the root file system %s: %w", p.root, err)
	}
	if err := unix.Mount("proc", filepath.Join(p.merged(), "proc"), "proc", unix.MS_NOSUID, ""); err != nil {
		return fmt.Errorf("mounting /proc: %w", err)
	}
	if err := unix.Mount("/dev", filepath.Join(p.merged(), "dev"), "", unix.MS_BIND, ""); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	return nil
}

// leave takes the view apart. What was not mounted is no error: enter may have failed half-way.
func (p place) leave() error {
	for _, dir := range []string{
		filepath.Join(p.merged(), "dev"), filepath.Join(p.merged(), "proc"), p.merged(), p.scratch,
	} {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil &&
			!errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmounting %s: %w", dir, err)
		}
	}
	return nil
}
