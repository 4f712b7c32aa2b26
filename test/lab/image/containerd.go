package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/thread"
)

const (
	// namespace is the namespace of images for the kubelet.
	namespace = "k8s.io"

	// startLimit is the time limit until containerd answers, stopLimit until it has ended.
	startLimit = 30 * time.Second
	stopLimit  = 20 * time.Second

	// answerPollEvery is the interval of probes.
	answerPollEvery = 50 * time.Millisecond

	// storeConfiguration omits the part that runs pods, which requires cgroups and a network.
	storeConfiguration = `version = 2
disabled_plugins = ["io.containerd.grpc.v1.cri"]
`
)

// importImages imports archives into a store with the containerd of a root file system.
func importImages(ctx context.Context, root, store string, archives []string) error {
	return withContainerd(ctx, root, store, func() error {
		for _, archive := range archives {
			if err := importOne(ctx, root, archive); err != nil {
				return fmt.Errorf("importing %s: %w", archive, err)
			}
		}
		return nil
	})
}

// withContainerd calls a function while the containerd of a root file system runs on a store.
//
// Both run on a thread with its own mount namespace, which ends with it, so that no mount remains. The kernel kills
// their processes when the thread ends.
func withContainerd(ctx context.Context, root, store string, work func() error) error {
	return thread.Own(func() error {
		if err := mountStore(root, store); err != nil {
			return err
		}
		return runContainerd(ctx, root, work)
	})
}

// mountStore makes the root file system read-only for this thread, and mounts the folders that containerd writes to.
func mountStore(root, store string) error {
	if err := syscall.Unshare(syscall.CLONE_FS | syscall.CLONE_NEWNS); err != nil {
		return fmt.Errorf("creating a mount namespace: %w", err)
	}
	for _, mount := range []struct {
		source, target, kind string
		flags                uintptr
	}{
		{target: "/", flags: syscall.MS_REC | syscall.MS_PRIVATE},
		{source: root, target: root, flags: syscall.MS_BIND},
		{target: root, flags: syscall.MS_BIND | syscall.MS_REMOUNT | syscall.MS_RDONLY},
		{source: "/proc", target: filepath.Join(root, "proc"), flags: syscall.MS_BIND | syscall.MS_REC},
		{source: "/dev", target: filepath.Join(root, "dev"), flags: syscall.MS_BIND | syscall.MS_REC},
		{source: "tmpfs", target: filepath.Join(root, "run"), kind: "tmpfs"},
		{source: "tmpfs", target: filepath.Join(root, "tmp"), kind: "tmpfs"},
		{source: store, target: filepath.Join(root, "var/lib/containerd"), flags: syscall.MS_BIND},
	} {
		if err := syscall.Mount(mount.source, mount.target, mount.kind, mount.flags, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", mount.target, err)
		}
	}
	return os.WriteFile(filepath.Join(root, "run/containerd.toml"), []byte(storeConfiguration), 0o644)
}

func runContainerd(ctx context.Context, root string, work func() error) (err error) {
	var log bytes.Buffer
	daemon := inRoot(ctx, root, "/usr/bin/containerd", "--config", "/run/containerd.toml")
	daemon.Stdout, daemon.Stderr = &log, &log
	// After SIGTERM it closes its databases.
	daemon.Cancel = func() error { return daemon.Process.Signal(syscall.SIGTERM) }
	daemon.WaitDelay = stopLimit
	if err := daemon.Start(); err != nil {
		return fmt.Errorf("starting containerd: %w", err)
	}
	defer func() {
		if err = errors.Join(err, stop(daemon)); err != nil {
			err = fmt.Errorf("%w\ncontainerd said:\n%s", err, tail(log.String()))
		}
	}()
	if err := waitForAnswer(ctx, root); err != nil {
		return err
	}
	return work()
}

// inRoot returns a command of a root file system. The thread that has mounted it must start the command.
func inRoot(ctx context.Context, root string, name string, arguments ...string) *exec.Cmd {
	command := exec.CommandContext(ctx, name, arguments...)
	command.Dir = "/"
	command.Env = []string{searchPath}
	command.SysProcAttr = &syscall.SysProcAttr{Chroot: root, Pdeathsig: syscall.SIGKILL}
	return command
}

func waitForAnswer(ctx context.Context, root string) error {
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	ticker := time.NewTicker(answerPollEvery)
	defer ticker.Stop()
	for {
		output, err := inRoot(ctx, root, "/usr/bin/ctr", "version").CombinedOutput()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("containerd does not answer after %s: %w\n%s", startLimit, err, tail(string(output)))
		case <-ticker.C:
		}
	}
}

func importOne(ctx context.Context, root, archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	command := inRoot(ctx, root, "/usr/bin/ctr", "--namespace", namespace, "images", "import", "-")
	command.Stdin = file
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running ctr: %w\n%s", err, tail(string(output)))
	}
	return nil
}

// stop ends containerd with SIGTERM.
func stop(daemon *exec.Cmd) error {
	if err := daemon.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping containerd: %w", err)
	}
	killer := time.AfterFunc(stopLimit, func() { _ = daemon.Process.Kill() })
	defer killer.Stop()
	if err := daemon.Wait(); err != nil {
		return fmt.Errorf("stopping containerd: %w", err)
	}
	return nil
}
