package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// plain are the folders of the machine without layers: containerd has its own layers, and databases with frequent syncs
// do not profit.
var plain = []string{"containerd", "etcd", "kubelet"}

// disk is the disk of a machine, a folder with the parts
//
//	installed     the key of the image on the disk; required to boot
//	upper, work   the changes of the machine to the root file system
//	containerd, etcd, kubelet
type disk struct {
	dir string
}

// installed returns the key of the image on the disk, or an empty string.
func (d disk) installed() (string, error) {
	content, err := os.ReadFile(filepath.Join(d.dir, "installed"))
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading what is installed on the disk: %w", err)
	}
	return strings.TrimSpace(string(content)), nil
}

// wipe deletes the disk. It makes the disk unbootable first, so that an interrupted wipe leaves no partial system.
func (d disk) wipe() error {
	if err := os.Remove(filepath.Join(d.dir, "installed")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("wiping the disk: %w", err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("wiping the disk: %w", err)
	}
	return nil
}

// write writes an image to an empty disk, with the images of the store for containerd.
func (d disk) write(key, store string, linkStore func(from, to string) error) error {
	folders := []string{"upper", "work"}
	for _, name := range plain {
		if name != "containerd" || store == "" {
			folders = append(folders, name)
		}
	}
	for _, name := range folders {
		if err := os.MkdirAll(filepath.Join(d.dir, name), 0o755); err != nil {
			return fmt.Errorf("writing to the disk: %w", err)
		}
	}
	if store != "" {
		if err := linkStore(store, filepath.Join(d.dir, "containerd")); err != nil {
			return fmt.Errorf("writing container images to the disk: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(d.dir, "installed"), []byte(key+"\n"), 0o644); err != nil {
		return fmt.Errorf("writing to the disk: %w", err)
	}
	return nil
}

// upper returns the layer with the changes of the machine.
func (d disk) upper() string { return filepath.Join(d.dir, "upper") }

// plan returns the plan to boot from the disk, with a root file system as the lower layer.
func (d disk) plan(lower string) Plan {
	return Plan{Lower: lower, Upper: d.upper(), Work: filepath.Join(d.dir, "work"), Binds: d.binds()}
}

// binds returns the mount points of the plain folders.
func (d disk) binds() map[string]string {
	places := map[string]string{}
	for _, name := range plain {
		places[filepath.Join("/var/lib", name)] = filepath.Join(d.dir, name)
	}
	return places
}
