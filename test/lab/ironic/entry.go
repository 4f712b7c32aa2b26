package ironic

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

const (
	pythonPackages = "usr/lib/python3/dist-packages"
	// EntryPoint is the program of the root file system that starts Ironic.
	EntryPoint = "/usr/local/bin/lab-ironic"
	// UserID is the user and group of Ironic, which requires no name.
	UserID = 65532
)

// entry is the program at EntryPoint.
//
//go:embed lab-ironic
var entry []byte

// RootKey returns the key of the result of EnsureRoot: the base and the files of install. It builds nothing.
func RootKey() string {
	hash := sha256.New()
	fmt.Fprintln(hash, baseKey(), EntryPoint, ConfigDir, StateDir, UserID, len(entry))
	hash.Write(entry)
	return hex.EncodeToString(hash.Sum(nil))[:16]
}

// install adds the entry point and the two folders of the lab to a root file system.
func install(root string) error {
	target := filepath.Join(root, EntryPoint)
	err := errors.Join(
		os.MkdirAll(filepath.Dir(target), 0o755),
		os.MkdirAll(filepath.Join(root, ConfigDir), 0o755),
		os.MkdirAll(filepath.Join(root, StateDir), 0o755),
	)
	if err != nil {
		return err
	}
	return errors.Join(
		os.WriteFile(target, entry, 0o755),
		os.Chown(filepath.Join(root, StateDir), UserID, UserID),
	)
}
