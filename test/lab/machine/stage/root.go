package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/machine/cgroup"
)

// start is the first process of a machine: it assembles the root file system, moves into it and executes the first
// process of the operating system. It returns only after an error.
func start(planFile, terminal string) error {
	// The machine ends with the process that waits for it. Pdeathsig of Go fails if the parent is outside of the
	// namespace.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fmt.Errorf("setting the parent death signal: %w", err)
	}
	plan, err := machine.ReadPlan(planFile)
	if err != nil {
		return err
	}
	// The pipe carries no data. Its end means that all else is ready.
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return fmt.Errorf("waiting for the lab: %w", err)
	}
	if err := assemble(plan, terminal); err != nil {
		return err
	}
	if err := pivot(plan.Root); err != nil {
		return err
	}
	// The image sets the host name later. Until then it must not be that of this computer.
	if err := unix.Sethostname([]byte("localhost")); err != nil {
		return fmt.Errorf("setting the host name: %w", err)
	}
	if err := silence(); err != nil {
		return err
	}
	// In a container systemd reads its arguments as those of the kernel. The journal has the status.
	args := []string{"/sbin/init", "systemd.show_status=error", "systemd.journald.forward_to_console=1"}
	err = syscall.Exec(args[0], args, []string{"container=lab", "TERM=dumb", "PATH=" + path})
	return fmt.Errorf("running %s: %w", args[0], err)
}

// mounting is one mount. Targets are relative to the new root.
type mounting struct {
	source, target, system string
	flags                  uintptr
	options                string
}

func (m mounting) on(root string) error {
	target := filepath.Join(root, m.target)
	if err := os.MkdirAll(target, 0o755); err != nil {
		return fmt.Errorf("creating the mount point %s: %w", m.target, err)
	}
	if err := unix.Mount(m.source, target, m.system, m.flags, m.options); err != nil {
		return fmt.Errorf("mounting %s on %s: %w", m.system, m.target, err)
	}
	return nil
}

func assemble(plan machine.Plan, terminal string) error {
	// No mount may propagate to the computer.
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("separating the mounts: %w", err)
	}
	layers := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", plan.Lower, plan.Upper, plan.Work)
	const safe = unix.MS_NOSUID | unix.MS_NODEV
	mounts := []mounting{
		{source: "overlay", target: "/", system: "overlay", options: layers},
		{source: "proc", target: "/proc", system: "proc", flags: safe | unix.MS_NOEXEC},
		// The machine must not configure devices of the computer.
		{source: "sysfs", target: "/sys", system: "sysfs", flags: safe | unix.MS_NOEXEC | unix.MS_RDONLY},
		{source: "tmpfs", target: "/dev", system: "tmpfs", flags: unix.MS_NOSUID, options: "mode=755,size=16m"},
		{source: "devpts", target: "/dev/pts", system: "devpts", flags: unix.MS_NOSUID | unix.MS_NOEXEC,
			options: "newinstance,ptmxmode=0666,mode=620,gid=5"},
		{source: "tmpfs", target: "/dev/shm", system: "tmpfs", flags: safe, options: "mode=1777"},
		{source: "mqueue", target: "/dev/mqueue", system: "mqueue", flags: safe | unix.MS_NOEXEC},
		{source: "tmpfs", target: "/run", system: "tmpfs", flags: safe, options: "mode=755"},
		{source: "tmpfs", target: "/tmp", system: "tmpfs", flags: safe, options: "mode=1777"},
	}
	groups, err := groupMounts()
	if err != nil {
		return err
	}
	mounts = append(mounts, groups...)
	for target, source := range plan.Binds {
		mounts = append(mounts, mounting{source: source, target: target, system: "bind", flags: unix.MS_BIND})
	}
	for _, mount := range mounts {
		if err := mount.on(plan.Root); err != nil {
			return err
		}
	}
	if err := linkControllers(plan.Root); err != nil {
		return err
	}
	return makeDevices(filepath.Join(plan.Root, "dev"), terminal)
}

// groupMounts returns the mounts of the control groups. In its cgroup namespace, the group of the machine is the root
// of each hierarchy.
func groupMounts() ([]mounting, error) {
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return nil, err
	}
	const safe = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	const top = "/sys/fs/cgroup"
	var mounts []mounting
	if !slices.ContainsFunc(hierarchies, func(h cgroup.Hierarchy) bool { return h.Mount == top }) {
		mounts = append(mounts, mounting{source: "tmpfs", target: top, system: "tmpfs", flags: safe, options: "mode=755"})
	}
	for _, hierarchy := range hierarchies {
		mounts = append(mounts, mounting{
			source: hierarchy.Type, target: hierarchy.Mount, system: hierarchy.Type, flags: safe, options: hierarchy.Options,
		})
	}
	return mounts, nil
}

// linkControllers adds the names of controllers that share a hierarchy.
func linkControllers(root string) error {
	hierarchies, err := cgroup.Hierarchies()
	if err != nil {
		return err
	}
	for _, hierarchy := range hierarchies {
		if len(hierarchy.Controllers()) < 2 {
			continue
		}
		for _, controller := range hierarchy.Controllers() {
			link := filepath.Join(root, filepath.Dir(hierarchy.Mount), controller)
			err := os.Symlink(filepath.Base(hierarchy.Mount), link)
			if err != nil && !errors.Is(err, os.ErrExist) {
				return fmt.Errorf("linking controller %s: %w", controller, err)
			}
		}
	}
	return nil
}

// pivot makes a folder the root and unmounts the files of the computer.
func pivot(root string) error {
	if err := unix.Chdir(root); err != nil {
		return fmt.Errorf("changing to the root file system: %w", err)
	}
	// With the same folder twice, the old root is mounted on top of the new one and can be unmounted.
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the old root: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("changing to the root: %w", err)
	}
	// Volumes of a kubelet must appear in running containers.
	if err := unix.Mount("", "/", "", unix.MS_SHARED|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing the mounts: %w", err)
	}
	return nil
}
