package ironic

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// ImageSource is the environment variable with the path of a checkout of metal3-io/ironic-image.
const ImageSource = "IRONIC_IMAGE_SOURCE"

// modulesFile lists the modules of the web server.
const modulesFile = "etc/httpd/conf.modules.d/httpd-modules.conf"

// placed are the files of a checkout, and the files or folders where its Dockerfile installs them.
// Source: Dockerfile of ironic-image v38.0.0.
var placed = []struct{ from, to string }{
	{"scripts/*", "usr/bin/"},
	{"configure-nonroot.sh", "usr/bin/"},
	{"ironic-config/inspector.ipxe.j2", "templates/"},
	{"ironic-config/httpd-ironic-api.conf.j2", "templates/"},
	{"ironic-config/ipxe_config.template", "templates/"},
	{"ironic-config/dnsmasq.conf.j2", "templates/"},
	{"ironic-config/ironic.conf.j2", "etc/ironic/"},
	{"ironic-config/ironic-networking.conf.j2", "etc/ironic/"},
	{"ironic-config/httpd.conf.j2", "etc/httpd/conf/"},
	{"ironic-config/httpd-modules.conf", modulesFile},
	{"ironic-config/apache2-vmedia.conf.j2", "templates/httpd-vmedia.conf.j2"},
	{"ironic-config/apache2-ipxe.conf.j2", "templates/httpd-ipxe.conf.j2"},
}

// links are the names of Debian's programs that differ from those of the base image.
var links = map[string]string{
	"usr/bin/python3.12": "python3", "usr/bin/sh": "bash", "usr/bin/ipcalc": "ipcalc-ng", "usr/sbin/httpd": "apache2",
	"etc/httpd/modules": "/usr/lib/apache2/modules",
}

// contents are files of the packages of the base image, which Debian does not have. No machine of a lab reads the EFI
// system partition.
var contents = map[string]string{
	"etc/httpd/conf.d/README": "", "etc/mime.types": "", "etc/dnsmasq.conf": "",
	"templates/uefi_esp_x86_64.img": "partition\n", "templates/uefi_esp_aarch64.img": "partition\n",
}

// builtIn are the modules that Debian compiles into the web server.
var builtIn = []string{"log_config_module", "unixd_module"}

// accounts have the IDs of the base image: configure-nonroot.sh and the pods use them.
var accounts = []struct{ file, entry string }{
	{"etc/passwd", "ironic:x:997:994::/var/lib/ironic:/sbin/nologin"},
	{"etc/passwd", "apache:x:48:48::/usr/share/httpd:/sbin/nologin"},
	{"etc/group", "ironic:x:994:"},
	{"etc/group", "apache:x:48:"},
}

// ImageOptions are variables of oslo.config that the configuration of the image requires with the release of Ironic in
// the lab, which has fewer deploy interfaces.
func ImageOptions() []string {
	return []string{
		"OS_DEFAULT__DEFAULT_DEPLOY_INTERFACE=direct",
		"OS_DEFAULT__ENABLED_DEPLOY_INTERFACES=direct,fake,ramdisk,custom-agent",
	}
}

// EnsureImageRoot returns the root file system of the container image of a checkout of metal3-io/ironic-image, and the
// key of its content. Scripts, templates, users and modes are those of the checkout. The programs are those of
// EnsureRoot. Do not write to the folder.
func EnsureImageRoot(ctx context.Context, source string, progress io.Writer) (dir, key string, err error) {
	if key, err = imageRootKey(source); err != nil {
		return "", "", err
	}
	base, err := ensureBase(ctx, progress)
	if err != nil {
		return "", "", err
	}
	dir, err = ensureDir(rootPrefix+"image-"+key, func(partial string) error {
		if err := linkTree(base, partial); err != nil {
			return fmt.Errorf("linking %s: %w", base, err)
		}
		return installImage(ctx, partial, source, progress)
	})
	if err != nil {
		return "", "", fmt.Errorf("building the root file system of the image of %s: %w", source, err)
	}
	return dir, key, nil
}

// imageRootKey returns the key of EnsureImageRoot. It builds nothing.
func imageRootKey(source string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, baseKey(), placed, links, contents, builtIn, accounts)
	for _, place := range placed {
		files, err := sourceFiles(source, place.from)
		if err != nil {
			return "", err
		}
		for _, file := range files {
			content, err := os.ReadFile(file)
			if err != nil {
				return "", err
			}
			fmt.Fprintln(hash, filepath.Base(file), len(content))
			hash.Write(content)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

func sourceFiles(source, pattern string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(source, pattern))
	if err == nil && len(files) == 0 {
		return nil, fmt.Errorf("%s is %q, which has no %s: set it to a checkout of metal3-io/ironic-image",
			ImageSource, source, pattern)
	}
	return files, err
}

// installImage does in a root file system what the Dockerfile does in the base image.
func installImage(ctx context.Context, root, source string, progress io.Writer) error {
	for _, folder := range []string{"conf", "data", "shared", "certs", "var/lib/ironic"} {
		if err := os.MkdirAll(filepath.Join(root, folder), 0o755); err != nil {
			return err
		}
	}
	for _, place := range placed {
		if err := installFiles(root, source, place.from, place.to); err != nil {
			return err
		}
	}
	for name, content := range contents {
		if err := replaceFile(filepath.Join(root, name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	for name, destination := range links {
		name = filepath.Join(root, name)
		if err := errors.Join(os.RemoveAll(name), os.Symlink(destination, name)); err != nil {
			return err
		}
	}
	dnsmasq := filepath.Join(root, "usr/sbin/dnsmasq")
	if err := errors.Join(filterModules(root), addAccounts(root), ownFile(dnsmasq)); err != nil {
		return err
	}
	steps := builder{dir: root, progress: progress}
	return errors.Join(
		steps.run(ctx, "making an empty database", "chroot", root, "python3", "-c",
			"import sqlite3; sqlite3.connect('/var/lib/ironic/ironic.sqlite').execute('pragma journal_mode=wal')"),
		steps.run(ctx, "running configure-nonroot.sh of the image", "chroot", root, "bash", "/usr/bin/configure-nonroot.sh"),
	)
}

// installFiles copies files of the checkout into a folder, or one file to another name.
func installFiles(root, source, from, to string) error {
	files, err := sourceFiles(source, from)
	if err != nil {
		return err
	}
	for _, file := range files {
		target := filepath.Join(root, to)
		if strings.HasSuffix(to, "/") {
			target = filepath.Join(root, to, filepath.Base(file))
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(to, "usr/bin") {
			mode = 0o755
		}
		if err := replaceFile(target, content, mode); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a new file: the root file system shares its files with the base.
func replaceFile(path string, content []byte, mode fs.FileMode) error {
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.RemoveAll(path)); err != nil {
		return err
	}
	if err := os.WriteFile(path, content, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// ownFile gives the root file system a copy of a file, whose attributes configure-nonroot.sh changes.
func ownFile(path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return replaceFile(path, content, 0o755)
}

// filterModules removes the modules that Debian's web server contains, and returns an error for other missing modules.
func filterModules(root string) error {
	path := filepath.Join(root, modulesFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var kept bytes.Buffer
	for line := range strings.Lines(string(content)) {
		words := strings.Fields(line)
		if len(words) == 3 && words[0] == "LoadModule" {
			if slices.Contains(builtIn, words[1]) {
				continue
			}
			module := filepath.Join(root, "usr/lib/apache2/modules", filepath.Base(words[2]))
			if _, err := os.Stat(module); err != nil {
				return fmt.Errorf("a module of the web server of the image: %w", err)
			}
		}
		kept.WriteString(line)
	}
	return replaceFile(path, kept.Bytes(), 0o644)
}

// addAccounts adds users and groups, or replaces those of Debian.
func addAccounts(root string) error {
	for _, account := range accounts {
		path := filepath.Join(root, account.file)
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _, _ := strings.Cut(account.entry, ":")
		others := regexp.MustCompile(`(?m)^`+name+`:.*\n`).ReplaceAll(content, nil)
		if err := replaceFile(path, append(others, account.entry+"\n"...), 0o644); err != nil {
			return err
		}
	}
	return nil
}
