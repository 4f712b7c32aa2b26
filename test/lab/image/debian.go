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
	// suite is the release of Debian that machines run.
	suite = "bookworm"

	// mirror is where its packages come from.
	mirror = "http://deb.debian.org/debian"

	// debianLimit is how long the installation may take, with a slow network and a busy machine.
	debianLimit = 30 * time.Minute

	// tailLength is how much of the output of a program that failed is shown.
	tailLength = 2000
)

// packages is what a machine needs beyond the smallest Debian.
func packages() []string {
	return []string{
		// What boots and configures it. Debian's cloud-init writes routes for the programs of net-tools, and debootstrap
		// does not find out that the cryptography module of Python needs the one named here.
		"cloud-init", "dbus", "ifupdown", "iproute2", "isc-dhcp-client", "kmod", "mount", "net-tools", "netbase",
		"openssh-server", "procps", "python3-cffi-backend", "sudo", "systemd", "systemd-sysv", "udev", "util-linux",
		// What runs containers, and what kubelet, kubeadm and kube-proxy call.
		"conntrack", "containerd", "containernetworking-plugins", "ethtool", "ipset", "iptables", "nftables", "runc",
		"socat",
		// What holds a virtual address.
		"keepalived",
		// What boot data and people use.
		"ca-certificates", "curl", "iputils-ping", "jq", "less", "netcat-openbsd",
	}
}

// EnsureDebian returns the installation of Debian that machines are made from, making it when the cache has none, which
// takes minutes. Programs takes programs out of it. Do not write to the folder.
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

// CachedDebian is the folder of EnsureDebian where the cache has it, and empty where it has not. It makes nothing, for
// tests that must not take minutes.
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

// debianName is what the cache calls the installation.
func debianName() string {
	return "lab-debian-" + key(suite, runtime.GOARCH, packages())
}

// debian is the smallest installation of Debian with the packages. The key names the packages but not their versions:
// the newest of the release are taken, and stay until the folder is removed.
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

// installDebian runs debootstrap in namespaces of its own, so that no process and no mount outlives it.
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

// runProgram runs a program that asks nothing and shows the end of its output when it fails.
func runProgram(command *exec.Cmd) error {
	var output bytes.Buffer
	command.Stdout, command.Stderr = &output, &output
	command.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if err := command.Run(); err != nil {
		return fmt.Errorf("running %s: %w\n%s", command.Args[0], err, tail(output.String()))
	}
	return nil
}

// tail is the end of what a program said.
func tail(output string) string {
	output = strings.TrimSpace(output)
	if len(output) > tailLength {
		return "..." + output[len(output)-tailLength:]
	}
	return output
}
