package image

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// storeLimit is the time limit to import images.
const storeLimit = 10 * time.Minute

// storeSources are part of the key of a store, because they define its content.
//
//go:embed store.go containerd.go
var storeSources embed.FS

// store returns the folder of a containerd that has imported all images of the folder and the extra ones.
func (w workshop) store(ctx context.Context, root, images string, extra []string) (string, error) {
	names := []string{filepath.Base(root), filepath.Base(images)}
	for _, archive := range extra {
		names = append(names, filepath.Base(archive))
	}
	sources, err := contentKey(storeSources)
	if err != nil {
		return "", err
	}
	return w.ensure(ctx, step{
		name:  "lab-store-" + key(names, sources),
		label: "importing container images into a store",
		limit: storeLimit,
		make: func(ctx context.Context, target string) error {
			if err := w.checkRoom(roomForStore); err != nil {
				return err
			}
			archives, err := filepath.Glob(filepath.Join(images, "*.tar"))
			if err != nil {
				return err
			}
			if err := os.Mkdir(target, 0o711); err != nil {
				return err
			}
			return importImages(ctx, root, target, append(archives, extra...))
		},
	})
}

// Derive creates a store for one lab: the shared store, and images from archives of Pack that change with the code. The
// folder must not exist and must be on the file system of the cache. It is removed after an error. It takes a fraction
// of a second, and about a second for each 100 MB to import.
func (a Artefacts) Derive(ctx context.Context, folder string, archives ...string) error {
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	if err := LinkStore(a.Store, folder); err != nil || len(archives) == 0 {
		return err
	}
	err := a.shop.run(fmt.Sprintf("importing %d container images of this lab", len(archives)), func() error {
		return importImages(ctx, a.Root, folder, archives)
	})
	if err != nil {
		return errors.Join(fmt.Errorf("creating the image store %s: %w", folder, err), os.RemoveAll(folder))
	}
	return nil
}

// LinkStore creates a store for a machine with the same images, in milliseconds: it links layers and contents, which
// never change, and copies databases. The second folder must not exist and must be on the same file system.
func LinkStore(from, to string) error {
	err := cloneTree(from, to, func(path string, entry fs.DirEntry) treatment {
		if isDatabase(path, entry) {
			return duplicate
		}
		return link
	})
	switch {
	case errors.Is(err, syscall.EXDEV):
		err = fmt.Errorf("%w; use the file system of the cache, or set METAL3_CACHE", err)
	case errors.Is(err, fs.ErrExist):
		// The folder is of another lab.
		return fmt.Errorf("linking the image store %s: %w", to, err)
	case err == nil:
		return nil
	}
	return errors.Join(fmt.Errorf("linking the image store %s: %w", to, err), os.RemoveAll(to))
}

// isDatabase returns true for files that containerd writes to while it runs. Layers may have files with the same names.
func isDatabase(path string, entry fs.DirEntry) bool {
	return !entry.IsDir() && strings.HasSuffix(path, ".db") && !strings.Contains(path, "/snapshots/")
}
