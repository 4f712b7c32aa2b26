package guard_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

// setImmutable makes a directory read-only even for root.
func setImmutable(path string, immutable bool) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = directory.Close() }()
	flags, err := unix.IoctlGetInt(int(directory.Fd()), unix.FS_IOC_GETFLAGS)
	if err != nil {
		return err
	}
	const immutableFlag = 0x10
	if flags &^= immutableFlag; immutable {
		flags |= immutableFlag
	}
	return unix.IoctlSetPointerInt(int(directory.Fd()), unix.FS_IOC_SETFLAGS, flags)
}

// runKeepalived runs keepalived without a guard, and returns a function that stops it.
func (n *node) runKeepalived() func() {
	command := exec.CommandContext(context.Background(), keepalive, "--dont-fork", "--log-console", "--no-syslog", "--vrrp",
		"--use-file="+n.path("run", "keepalived.conf"), "--pid="+n.path("run", "pid"), "--vrrp_pid="+n.path("run", "vrrp"))
	command.Stdout, command.Stderr = n.said, n.said
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	started, ended := make(chan error), make(chan struct{})
	go func() {
		defer close(ended)
		_ = within(n.space, func() error {
			err := command.Start()
			started <- err
			if err == nil {
				_ = command.Wait()
			}
			return nil
		})
	}()
	must(n.lab.t, <-started)
	return func() {
		_ = command.Process.Signal(syscall.SIGTERM)
		<-ended
	}
}

// readOnly calls a function on a thread that sees the directory read-only, as the kubelet mounts a Secret.
func readOnly(path string, do func() error) error {
	return thread.Own(func() error {
		err := errors.Join(
			unix.Unshare(unix.CLONE_FS|unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount(path, path, "", unix.MS_BIND, ""),
			unix.Mount("", path, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""),
		)
		if err != nil {
			return err
		}
		return do()
	})
}

// openFolders lets all users read the files of the node.
func (n *node) openFolders() {
	for folder := n.path(); folder != filepath.Clean(os.TempDir()); folder = filepath.Dir(folder) {
		must(n.lab.t, os.Chmod(folder, 0o755))
	}
}
