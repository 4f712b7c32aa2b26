package image

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

const (
	// rootPrefix stands before the key of a root file system in the cache.
	rootPrefix = "lab-root-"

	// rootLimit is how long putting a root file system together may take. Hardly anything is copied.
	rootLimit = 5 * time.Minute
)

// rootFiles is what the lab adds to Debian, at the paths where machines have it.
//
//go:embed all:rootfs
var rootFiles embed.FS

// rootSources are part of the key of a root file system, because they decide what becomes of the parts.
//
//go:embed root.go tree.go
var rootSources embed.FS

// parts is what a root file system is put together from.
type parts struct {
	// debian is an installation of Debian; kubernetes, control and own are folders with programs.
	debian, kubernetes, control, own string
}

// root is the root file system of a machine, as the read-only lower layer of an overlay.
func (w workshop) root(ctx context.Context, parts parts) (string, error) {
	files, err := contentKey(rootFiles, rootSources)
	if err != nil {
		return "", err
	}
	return w.ensure(ctx, step{
		name:  rootPrefix + key(parts.keys(), files),
		label: "putting the root file system of the machines together",
		limit: rootLimit,
		make:  func(_ context.Context, target string) error { return parts.assemble(target) },
	})
}

// keys are the names of the parts, each of which ends in a key.
func (p parts) keys() []string {
	return []string{filepath.Base(p.debian), filepath.Base(p.kubernetes), filepath.Base(p.control), filepath.Base(p.own)}
}

// assemble links Debian's files instead of copying them, so a file that differs is put in their place and never
// written into them.
func (p parts) assemble(target string) error {
	if err := cloneTree(p.debian, target, trim); err != nil {
		return fmt.Errorf("linking the files of Debian: %w", err)
	}
	for _, folder := range mountPoints() {
		if err := os.MkdirAll(filepath.Join(target, folder), 0o755); err != nil {
			return err
		}
	}
	for name, source := range p.programs() {
		if err := os.Link(source, filepath.Join(target, name)); err != nil {
			return fmt.Errorf("adding a program: %w", err)
		}
	}
	if err := addFiles(target); err != nil {
		return fmt.Errorf("adding the files of the lab: %w", err)
	}
	for name, destination := range unitLinks() {
		if err := replaceWithLink(filepath.Join(target, name), destination); err != nil {
			return err
		}
	}
	return nil
}

func (p parts) programs() map[string]string {
	return map[string]string{
		"usr/bin/kubelet":           filepath.Join(p.kubernetes, "kubelet"),
		"usr/bin/kubeadm":           filepath.Join(p.kubernetes, "kubeadm"),
		"usr/bin/kubectl":           filepath.Join(p.control, "kubectl"),
		"usr/local/sbin/podnetwork": filepath.Join(p.own, "podnetwork"),
	}
}

// trim leaves out what no machine reads, what every machine must have of its own, and the devices, which a machine gets
// when it is powered on.
func trim(name string, _ fs.DirEntry) treatment {
	switch {
	case path.Dir(name) == "dev", path.Dir(name) == "run", path.Dir(name) == "tmp":
		return omit
	case path.Dir(name) == "var/cache/apt", path.Dir(name) == "var/lib/apt/lists", path.Dir(name) == "var/log":
		return omit
	case path.Dir(name) == "usr/share/doc", path.Dir(name) == "usr/share/man":
		return omit
	case path.Dir(name) == "usr/share/locale":
		return omit
	// keepalived has no configuration of its own. The writer of the configuration starts it.
	case name == "etc/systemd/system/multi-user.target.wants/keepalived.service":
		return omit
	case strings.HasPrefix(name, "etc/ssh/ssh_host_"), name == "var/lib/dbus/machine-id":
		return omit
	}
	return link
}

// mountPoints are the folders that a machine mounts something on, and that Debian does not have.
func mountPoints() []string {
	return []string{"var/lib/containerd", "var/lib/kubelet", "var/lib/etcd", "var/log/journal"}
}

// addFiles puts the files of the lab in the place of Debian's.
func addFiles(target string) error {
	return fs.WalkDir(rootFiles, "rootfs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		file := filepath.Join(target, strings.TrimPrefix(name, "rootfs"))
		if entry.IsDir() {
			return os.MkdirAll(file, 0o755)
		}
		content, err := rootFiles.ReadFile(name)
		if err != nil {
			return err
		}
		if err := os.RemoveAll(file); err != nil {
			return err
		}
		return os.WriteFile(file, content, 0o644)
	})
}

// unitLinks say what systemd starts and what it leaves alone: the hardware, the clock, the settings of the kernel and
// the consoles belong to the Linux machine below, and timers of Debian would only disturb.
func unitLinks() map[string]string {
	const units, wanted = "etc/systemd/system/", "etc/systemd/system/multi-user.target.wants/"
	links := map[string]string{
		units + "default.target":       "/usr/lib/systemd/system/multi-user.target",
		wanted + "kubelet.service":     "/usr/lib/systemd/system/kubelet.service",
		wanted + "lab-network.service": "/usr/lib/systemd/system/lab-network.service",
	}
	for _, unit := range []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
		"fstrim.timer", "console-getty.service", "getty.target", "modprobe@.service",
		"dev-hugepages.mount", "dev-mqueue.mount", "proc-sys-fs-binfmt_misc.automount", "sys-fs-fuse-connections.mount",
		"sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount",
		"systemd-binfmt.service", "systemd-logind.service", "systemd-modules-load.service", "systemd-networkd.service",
		"systemd-remount-fs.service", "systemd-sysctl.service", "systemd-timesyncd.service",
		"systemd-udev-settle.service", "systemd-udev-trigger.service", "systemd-udevd.service",
		"systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
	} {
		links[units+unit] = "/dev/null"
	}
	return links
}

func replaceWithLink(name, destination string) error {
	if err := os.RemoveAll(name); err != nil {
		return err
	}
	return os.Symlink(destination, name)
}
