package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// seed is where cloud-init looks for a config drive that is not a block device. The machine has no disk devices,
// because what is on them would be the computer's.
const seed = "var/lib/cloud/seed/config_drive"

// InsertMedia puts a config drive into the machine: the content of its files by their paths, such as
// openstack/latest/user_data. It replaces the one before. A system that runs sees it when it boots the next time.
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

// EjectMedia takes the config drive out of the machine. None has to be there.
func (m *Machine) EjectMedia() error {
	m.media.Lock()
	defer m.media.Unlock()
	if err := os.RemoveAll(m.path("media")); err != nil {
		return fmt.Errorf("ejecting the media of machine %s: %w", m.spec.Name, err)
	}
	return nil
}

// presentMedia shows a system that is about to boot the config drive that is inserted now, or none.
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
