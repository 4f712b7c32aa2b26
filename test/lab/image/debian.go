package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

const (
	// suite is the release of Debian on machines.
	suite = "bookworm"

	// mirror is the mirror of its packages.
	mirror = "http://deb.debian.org/debian"

	// debianLimit is the time limit of the installation, with a slow network and a busy machine.
	debianLimit = 30 * time.Minute

	// tailLength is the length of shown output of a failed program.
	tailLength = 2000
)

// packages are the packages of a machine besides the smallest Debian.
func packages() []string {
	return []string{
		// Boot and configuration. cloud-init of Debian writes routes for the programs of net-tools. debootstrap misses a
		// dependency of the cryptography module of Python, which is listed here.
		"cloud-init", "dbus", "ifupdown", "iproute2", "isc-dhcp-client", "kmod", "mount", "net-tools", "netbase",
		"openssh-server", "procps", "python3-cffi-backend", "sudo", "systemd", "systemd-sysv", "udev", "util-linux",
		// Containers, and programs that kubelet, kubeadm and kube-proxy call.
		"conntrack", "containerd", "containernetworking-plugins", "ethtool", "ipset", "iptables", "nftables", "runc",
		"socat",
		// The VIP.
		"keepalived",
		// Programs for boot data and users.
		"ca-certificates", "curl", "iputils-ping", "jq", "less", "netcat-openbsd",
	}
}

// EnsureDebian returns the installation of Debian for machines, and builds it if the cache lacks it, which takes
// minutes. Do not write to the folder.
func EnsureDebian(ctx context.Context, progress io.Writer) (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	shop := workshop{cache: cache, progress: progress}
	if err := shop.checkMachine(); err != nil {
		return "", err
	}
	return shop.debian(ctx)
}

// CachedDebian returns the folder of EnsureDebian, or an empty path if the cache lacks it.
func CachedDebian() (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	path := filepath.Join(cache, debianName())
	if present, err := exists(path); !present || err != nil {
		return "", err
	}
	return path, nil
}

// debianName returns the name of the installation in the cache.
func debianName() string {
	return "lab-debian-" + key(suite, runtime.GOARCH, packages())
}

// debian installs the smallest Debian with the packages. The key contains no versions: the newest of the release are
// installed, and stay until the folder is removed.
func (w workshop) debian(ctx context.Context) (string, error) {
	return w.ensure(ctx, step{
		name:  debianName(),
		label: "installing Debian " + suite + " for the machines of the lab",
		limit: debianLimit,
		make: func(ctx context.Context, target string) error {
			if err := errors.Join(w.checkRoom(roomForAll), checkMirror(ctx, mirror)); err != nil {
				return err
			}
			if err := EnsureDebootstrap(ctx, w.progress); err != nil {
				return err
			}
			return installDebian(ctx, target)
		},
	})
}

// installDebian runs debootstrap in its own namespaces, so that no process and no mount outlives it.
func installDebian(ctx context.Context, target string) error {
	command := exec.CommandContext(ctx, "debootstrap", "--variant=minbase", "--arch="+runtime.GOARCH,
		"--include="+strings.Join(packages(), ","), suite, target, mirror)
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	return runProgram(command)
}

// runProgram runs a non-interactive program. An error has the end of its output.
func runProgram(command *exec.Cmd) error {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if err := command.Run(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", command.Args[0], err, tail(output.String()))
	}
	return nil
}

// tail returns the end of the output of a program.
func tail(output string) string {
	output = strings.TrimSpace(output)
	if len(output) > tailLength {
		return "..." + output[len(output)-tailLength:]
	}
	return output
}
