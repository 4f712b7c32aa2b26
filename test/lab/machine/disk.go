package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// plain are the folders of the machine that are not layered: containerd puts layers of its own into one, and databases
// that are synced often gain nothing from layers.
var plain = []string{"containerd", "etcd", "kubelet"}

// disk is what stays on a machine while it is powered off. It is a folder with the parts
//
//	installed     names the image that is on the disk; without it nothing boots
//	upper, work   the machine's changes to the root file system
//	containerd, etcd, kubelet
type disk struct {
	dir string
}

// installed is the key of the image that is on the disk, empty when there is none.
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

// wipe leaves nothing of the disk. It stops being bootable first, so that a wipe that is cut short leaves no half
// system.
func (d disk) wipe() error {
	if err := os.Remove(filepath.Join(d.dir, "installed")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("wiping the disk: %w", err)
	}
	if err := os.RemoveAll(d.dir); err != nil {
		return fmt.Errorf("wiping the disk: %w", err)
	}
	return nil
}

// write puts an image on an empty disk: the machine's layer is empty, and containerd finds the images of the store.
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

// upper is the layer that holds the machine's changes.
func (d disk) upper() string { return filepath.Join(d.dir, "upper") }

// plan boots from the disk, with a root file system below the changes of the machine.
func (d disk) plan(lower string) Plan {
	return Plan{Lower: lower, Upper: d.upper(), Work: filepath.Join(d.dir, "work"), Binds: d.binds()}
}

// binds says where the machine sees the plain folders.
func (d disk) binds() map[string]string {
	places := map[string]string{}
	for _, name := range plain {
		places[filepath.Join("/var/lib", name)] = filepath.Join(d.dir, name)
	}
	return places
}
