package ironic

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
	"github.com/metal3-pivot/cluster-api-provider-metal3/test/lab/image"
)

const (
	debianMirror  = "http://deb.debian.org/debian"
	debianRelease = "trixie"
	// ironicVersion is the release series of the configuration and the corrections.
	ironicVersion = "29"
	// rootPrefix is the prefix of root file systems in the cache.
	rootPrefix = "ironic-"
	// recipe changes when the build of the base changes without its list of packages.
	recipe = "1"
)

// packages are installed without recommended packages.
var packages = []string{
	"ironic-common",
	// genisoimage builds the ISO image of a config drive.
	"genisoimage",
	// These serve images and the API with TLS, addresses, and the boot program of machines that boot from the network.
	"apache2-bin", "dnsmasq-base", "ipxe",
	"ca-certificates",
	// Programs that the scripts of the image call.
	"crudini", "curl", "ipcalc-ng", "ipmitool", "iproute2", "jq", "libcap2-bin", "procps", "python3-watchdog",
	// debootstrap and apt miss this dependency of the cryptography module of Python.
	"python3-cffi-backend",
}

// pruned are files that a running Ironic does not read: documentation, translations, tests, caches, the configuration
// of the package, tools of the web server in Perl.
var pruned = []string{
	"dev/*", "etc/ironic", "etc/dpkg/dpkg.cfg.d/lab", "tmp/*", "usr/sbin/policy-rc.d",
	"usr/lib/ipxe/ipxe*", "usr/lib/*-linux-gnu/perl/*", "usr/share/perl/*",
	"usr/lib/python3/dist-packages/*/tests", "usr/lib/python3/dist-packages/numpy/*/tests",
	"usr/share/doc/*", "usr/share/i18n/*", "usr/share/ieee-data/*", "usr/share/info/*", "usr/share/locale/*",
	"usr/share/man/*",
	"var/cache/apt/*", "var/cache/debconf/*", "var/lib/apt/lists/*", "var/log/*",
}

// EnsureRoot returns the root file system of Ironic and the key of its content, and builds it if the cache lacks it.
// That takes minutes and requires root, debootstrap and a Debian mirror. Do not write to the folder. A Debian point
// release does not change the key: the first build stays until the cache is emptied.
func EnsureRoot(ctx context.Context, progress io.Writer) (dir, key string, err error) {
	key = RootKey()
	base, err := ensureBase(ctx, progress)
	if err != nil {
		return "", "", err
	}
	dir, err = ensureDir(rootPrefix+key, func(partial string) error {
		if err := linkTree(base, partial); err != nil {
			return fmt.Errorf("linking %s: %w", base, err)
		}
		return install(partial)
	})
	if err != nil {
		return "", "", fmt.Errorf("building the root file system of Ironic: %w", err)
	}
	return dir, key, nil
}

// CachedRoot returns the folder of EnsureRoot, or an empty path if the cache lacks it.
func CachedRoot() (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, rootPrefix+RootKey())
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	return dir, nil
}

// baseKey returns a hash of the inputs of the base.
func baseKey() string {
	hash := sha256.New()
	fmt.Fprintln(hash, recipe, runtime.GOARCH, debianRelease, ironicVersion, packages, pruned, corrections)
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// ensureBase returns the folder of Debian with Ironic, without files of the lab.
func ensureBase(ctx context.Context, progress io.Writer) (string, error) {
	dir, err := ensureDir("ironic-base-"+baseKey(), func(partial string) error {
		if os.Geteuid() != 0 {
			return errors.New("debootstrap requires root: run this as root once")
		}
		if err := image.EnsureDebootstrap(ctx, progress); err != nil {
			return err
		}
		return buildBase(ctx, partial, progress)
	})
	if err != nil {
		return "", fmt.Errorf("building the Debian of Ironic: %w", err)
	}
	return dir, nil
}

func buildBase(ctx context.Context, dir string, progress io.Writer) error {
	steps := builder{dir: dir, progress: progress}
	if err := steps.run(ctx, "unpacking Debian "+debianRelease,
		"debootstrap", "--variant=minbase", debianRelease, dir, debianMirror); err != nil {
		return err
	}
	if err := steps.write("etc/dpkg/dpkg.cfg.d/lab", 0o644, "force-unsafe-io\n"+
		"path-exclude=/usr/share/doc/*\npath-exclude=/usr/share/locale/*\npath-exclude=/usr/share/man/*\n"); err != nil {
		return err
	}
	// No service may start during the installation.
	if err := steps.write("usr/sbin/policy-rc.d", 0o755, "#!/bin/sh\nexit 101\n"); err != nil {
		return err
	}
	if err := steps.run(ctx, "reading the list of packages", "chroot", dir, "apt-get", "-q", "update"); err != nil {
		return err
	}
	install := append([]string{"chroot", dir, "apt-get", "-q", "-y", "install", "--no-install-recommends"}, packages...)
	if err := steps.run(ctx, "installing Ironic", install...); err != nil {
		return err
	}
	if err := checkVersion(dir); err != nil {
		return err
	}
	if err := correct(dir, progress); err != nil {
		return err
	}
	return prune(dir)
}

// checkVersion returns an error if Debian packages another Ironic than that of the lab.
func checkVersion(dir string) error {
	found, err := filepath.Glob(filepath.Join(dir, pythonPackages, "ironic-[0-9]*.egg-info"))
	if err != nil {
		return err
	}
	for _, path := range found {
		if strings.HasPrefix(filepath.Base(path), "ironic-"+ironicVersion+".") {
			return nil
		}
	}
	return fmt.Errorf("debian %s has %q, but the lab requires Ironic %s",
		debianRelease, found, ironicVersion)
}

func prune(dir string) error {
	for _, pattern := range pruned {
		paths, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				return fmt.Errorf("removing unused files: %w", err)
			}
		}
	}
	return nil
}

// ensureDir returns a folder of the cache. It creates a missing one under another name first. Another caller, in any
// process, waits for the first.
func ensureDir(name string, fill func(partial string) error) (string, error) {
	cache, err := binaries.CacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, name)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	lock, err := os.OpenFile(dir+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("locking %s: %w", lock.Name(), err)
	}
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return "", err
	}
	if err := os.Mkdir(partial, 0o755); err != nil {
		return "", err
	}
	if err := fill(partial); err != nil {
		return "", err
	}
	return dir, os.Rename(partial, dir)
}
