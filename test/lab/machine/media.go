package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// seed is the folder of cloud-init for a config drive without a block device. The machine has no disk devices, because
// they would be those of the computer.
const seed = "var/lib/cloud/seed/config_drive"

// InsertMedia inserts a config drive: its files by their paths, such as openstack/latest/user_data. It replaces an
// earlier one. A running system sees it at its next boot.
func (m *Machine) InsertMedia(files map[string][]byte) error {
	for name := range files {
		if !fs.ValidPath(name) || name == "." {
			return fmt.Errorf("inserting media into machine %s: the file %q: use a path relative to the top of the drive",
				m.spec.Name, name)
		}
	}
	m.media.Lock()
	defer m.media.Unlock()
	fresh := m.path("media.partial")
	err := os.RemoveAll(fresh)
	if err == nil {
		err = writeTree(fresh, files)
	}
	if err == nil {
		err = os.RemoveAll(m.path("media"))
	}
	if err == nil {
		err = os.Rename(fresh, m.path("media"))
	}
	if err != nil {
		return fmt.Errorf("inserting media into machine %s: %w", m.spec.Name, err)
	}
	return nil
}

// EjectMedia removes the config drive, if there is one.
func (m *Machine) EjectMedia() error {
	m.media.Lock()
	defer m.media.Unlock()
	if err := os.RemoveAll(m.path("media")); err != nil {
		return fmt.Errorf("ejecting the media of machine %s: %w", m.spec.Name, err)
	}
	return nil
}

// presentMedia copies the inserted config drive to the system that is about to boot.
func (m *Machine) presentMedia() error {
	m.media.Lock()
	defer m.media.Unlock()
	place := filepath.Join(m.disk().upper(), seed)
	if err := os.RemoveAll(place); err != nil {
		return fmt.Errorf("removing the media of an earlier boot: %w", err)
	}
	err := os.CopyFS(place, os.DirFS(m.path("media")))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("presenting the media: %w", err)
	}
	return nil
}

func writeTree(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, content := range files {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(file, content, 0o644); err != nil {
			return err
		}
	}
	return nil
}
