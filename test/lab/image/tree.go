package image

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// treatment is the action for one entry of a tree.
type treatment int

const (
	// link makes both trees share the file. It must then not change.
	link treatment = iota
	// duplicate copies the file.
	duplicate
	// omit omits the entry, and all entries below a folder.
	omit
)

// cloneTree creates a second tree on the same file system. It creates folders with the same owner and mode. choose
// returns the action for other entries, by their path below the top.
func cloneTree(from, to string, choose func(path string, entry fs.DirEntry) treatment) error {
	return filepath.WalkDir(from, func(source string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(from, source)
		if err != nil {
			return err
		}
		target, chosen := filepath.Join(to, path), choose(path, entry)
		switch {
		case chosen == omit && entry.IsDir():
			return fs.SkipDir
		case chosen == omit:
			return nil
		case entry.IsDir():
			return cloneFolder(source, target)
		case chosen == duplicate:
			return copyFile(source, target)
		default:
			//nolint:gosec // Both trees are in the cache, where no other user may write.
			return os.Link(source, target)
		}
	})
}

func cloneFolder(source, target string) error {
	if err := os.Mkdir(target, 0o700); err != nil {
		return err
	}
	return copyOwnerAndMode(source, target)
}

func copyFile(source, target string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(to, from); err != nil {
		_ = to.Close()
		return fmt.Errorf("copying %s: %w", source, err)
	}
	if err := to.Close(); err != nil {
		return err
	}
	return copyOwnerAndMode(source, target)
}

func copyOwnerAndMode(source, target string) error {
	var status syscall.Stat_t
	if err := syscall.Stat(source, &status); err != nil {
		return fmt.Errorf("reading the mode of %s: %w", source, err)
	}
	if err := os.Chown(target, int(status.Uid), int(status.Gid)); err != nil {
		return err
	}
	return syscall.Chmod(target, status.Mode&0o7777)
}
