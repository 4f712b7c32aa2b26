package ironic

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
)

//go:embed driver
var driver embed.FS

const (
	pythonPackages = "usr/lib/python3/dist-packages"
	// EntryPoint is the program of the root file system that starts Ironic.
	EntryPoint = "/usr/local/bin/lab-ironic"
	// UserID is the user and group that Ironic runs as. It needs no name.
	UserID = 65532
)

// driverFile is where one embedded file goes. The dist-info folder is how Ironic finds the hardware type.
type driverFile struct {
	name, target string
	mode         fs.FileMode
}

var driverFiles = []driverFile{
	{"lab_hardware.py", pythonPackages + "/lab_hardware.py", 0o644},
	{"entry_points.txt", pythonPackages + "/lab_hardware-1.0.dist-info/entry_points.txt", 0o644},
	{"METADATA", pythonPackages + "/lab_hardware-1.0.dist-info/METADATA", 0o644},
	{"lab-ironic", EntryPoint, 0o755},
}

// driverKey is the key of a root file system: the base and every file that is put into it.
func driverKey(baseKey string) (string, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, baseKey, driverFiles, ConfigDir, StateDir, UserID)
	for _, file := range driverFiles {
		content, err := driver.ReadFile(path.Join("driver", file.name))
		if err != nil {
			return "", err
		}
		fmt.Fprintln(hash, len(content))
		hash.Write(content)
	}
	return hex.EncodeToString(hash.Sum(nil))[:16], nil
}

// installDriver puts the hardware type, the entry point and the two folders of the lab into a root file system.
func installDriver(root string) error {
	for _, file := range driverFiles {
		content, err := driver.ReadFile(path.Join("driver", file.name))
		if err != nil {
			return err
		}
		target := filepath.Join(root, file.target)
		if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(target, content, file.mode); err != nil {
			return err
		}
	}
	for _, dir := range []string{ConfigDir, StateDir} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			return err
		}
	}
	return os.Chown(filepath.Join(root, StateDir), UserID, UserID)
}
