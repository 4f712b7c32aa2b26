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
	// ironicVersion is the release series that the configuration and the corrections are written for.
	ironicVersion = "29"
	// rootPrefix is how the folders of the cache begin that hold a root file system.
	rootPrefix = "ironic-"
	// recipe is raised when the way of building the base changes and its list of packages does not.
	recipe = "1"
)

// packages are installed without what they recommend.
var packages = []string{
	"ironic-common",
	// What builds the ISO image of a config drive.
	"genisoimage",
	// What serves images and the API with TLS, addresses, and the first program of a machine that boots from the network.
	"apache2-bin", "dnsmasq-base", "ipxe",
	"ca-certificates",
	// Programs that the scripts of the image call.
	"crudini", "curl", "ipcalc-ng", "ipmitool", "iproute2", "jq", "libcap2-bin", "procps", "python3-watchdog",
	// debootstrap and apt do not see that the cryptography of Python needs it.
	"python3-cffi-backend",
}

// pruned is what no running Ironic reads: documentation, translations, tests, caches, the package's own configuration,
// tools of the web server in Perl.
var pruned = []string{
	"dev/*", "etc/ironic", "etc/dpkg/dpkg.cfg.d/lab", "tmp/*", "usr/sbin/policy-rc.d",
	"usr/lib/ipxe/ipxe*", "usr/lib/*-linux-gnu/perl/*", "usr/share/perl/*",
	"usr/lib/python3/dist-packages/*/tests", "usr/lib/python3/dist-packages/numpy/*/tests",
	"usr/share/doc/*", "usr/share/i18n/*", "usr/share/ieee-data/*", "usr/share/info/*", "usr/share/locale/*",
	"usr/share/man/*",
	"var/cache/apt/*", "var/cache/debconf/*", "var/lib/apt/lists/*", "var/log/*",
}

// EnsureRoot returns the root file system of Ironic and the key of its content, building it first when the cache has
// none. That takes minutes, root, debootstrap and a Debian mirror; later calls cost a hash. Do not write to the
// folder. A Debian point release does not change the key: the first build stays until the cache is emptied.
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

// CachedRoot is the folder of EnsureRoot where the cache has it, and empty where it has not. It makes nothing, for
// tests that must not take minutes.
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

// baseKey changes with all that makes the base.
func baseKey() string {
	hash := sha256.New()
	fmt.Fprintln(hash, recipe, runtime.GOARCH, debianRelease, ironicVersion, packages, pruned, corrections)
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// ensureBase is Debian with Ironic, without anything of the lab.
func ensureBase(ctx context.Context, progress io.Writer) (string, error) {
	dir, err := ensureDir("ironic-base-"+baseKey(), func(partial string) error {
		if os.Geteuid() != 0 {
			return errors.New("debootstrap needs root: run this as root once, the result is cached")
		}
		if err := image.EnsureDebootstrap(ctx, progress); err != nil {
			return err
		}
		return buildBase(ctx, partial, progress)
	})
	if err != nil {
		return "", fmt.Errorf("building the Debian that Ironic runs on: %w", err)
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
	// No service may start in the folder.
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

// checkVersion refuses a Debian that packages another Ironic than the lab is written for.
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
	return fmt.Errorf("debian %s has %q, but the lab is written for Ironic %s",
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
				return fmt.Errorf("removing what Ironic does not need: %w", err)
			}
		}
	}
	return nil
}

// ensureDir returns a folder of the cache, filling it under another name first when it is not there. A second caller,
// in this process or another, waits for the first.
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
