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
	// rootPrefix is the prefix of a root file system in the cache, before its key.
	rootPrefix = "lab-root-"

	// rootLimit is the time limit to assemble a root file system, which copies few files.
	rootLimit = 5 * time.Minute
)

// rootFiles are the files that the lab adds to Debian.
//
//go:embed all:rootfs
var rootFiles embed.FS

// rootSources are part of the key of a root file system, because they define its content.
//
//go:embed root.go tree.go
var rootSources embed.FS

// parts are the parts of a root file system.
type parts struct {
	// debian is an installation of Debian; kubernetes, control and own are folders with programs.
	debian, kubernetes, control, own string
}

// root returns the root file system of a machine, the read-only lower layer of an overlay.
func (w workshop) root(ctx context.Context, parts parts) (string, error) {
	files, err := contentKey(rootFiles, rootSources)
	if err != nil {
		return "", err
	}
	return w.ensure(ctx, step{
		name:  rootPrefix + key(parts.keys(), files),
		label: "assembling the root file system of the machines",
		limit: rootLimit,
		make:  func(_ context.Context, target string) error { return parts.assemble(target) },
	})
}

// keys returns the names of the parts, which end in their keys.
func (p parts) keys() []string {
	return []string{filepath.Base(p.debian), filepath.Base(p.kubernetes), filepath.Base(p.control), filepath.Base(p.own)}
}

// assemble links the files of Debian. It replaces a file that differs, and never writes into a linked one.
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

// trim omits files that no machine reads, files that must differ between machines, and devices, which a machine gets at
// its start.
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
	// keepalived has no configuration at first. The boot data writes it and starts keepalived.
	case name == "etc/systemd/system/multi-user.target.wants/keepalived.service":
		return omit
	case strings.HasPrefix(name, "etc/ssh/ssh_host_"), name == "var/lib/dbus/machine-id":
		return omit
	}
	return link
}

// mountPoints are the mount points of a machine that Debian lacks.
func mountPoints() []string {
	return []string{"var/lib/containerd", "var/lib/kubelet", "var/lib/etcd", "var/log/journal"}
}

// addFiles adds the files of the lab, which replace those of Debian.
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

// unitLinks enable and mask units of systemd. The Linux machine manages hardware, clock, kernel settings and consoles,
// and timers of Debian are not required.
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
