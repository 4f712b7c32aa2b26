package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// mark records in the cache that tests have passed, until the files that they test change.
type mark struct{ file string }

// inputs are the files of the image of Ironic that the lab runs, if this computer has them.
func inputs() (paths []string) {
	for _, variable := range []string{"IRONIC_IMAGE_SOURCE", "IPA_DOWNLOADER"} {
		if path := os.Getenv(variable); path != "" {
			paths = append(paths, path)
		}
	}
	return paths
}

// newMark returns the mark for the content of some folders and files, wherever they are, the modules that the checkout
// needs, the roots of the lab, the version of Go and the user: many tests require root.
func newMark(name string, folders ...string) (mark, error) {
	hash := sha256.New()
	fmt.Fprintln(hash, runtime.Version(), runtime.GOARCH, os.Getuid())
	modules, err := filepath.Glob("hack/*/go.mod")
	if err != nil {
		return mark{}, err
	}
	for _, folder := range slices.Concat([]string{"go.mod"}, modules, folders) {
		if err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.Type().IsRegular() {
				return err
			}
			name, err := filepath.Rel(filepath.Dir(folder), path)
			if err != nil {
				return err
			}
			return addFile(hash, path, name)
		}); err != nil {
			return mark{}, fmt.Errorf("reading %s: %w", folder, err)
		}
	}
	cache, err := binaries.CacheDir()
	if err != nil {
		return mark{}, err
	}
	// Tests are skipped without the root file system of the lab.
	roots, err := filepath.Glob(filepath.Join(cache, "lab-root-*"))
	if err != nil {
		return mark{}, err
	}
	fmt.Fprintln(hash, roots)
	return mark{filepath.Join(cache, "tests", name+"-passed-"+hex.EncodeToString(hash.Sum(nil))[:16])}, nil
}

func addFile(to io.Writer, path, name string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(to, "%s %d\n%s", name, len(content), content)
	return err
}

func (m mark) isSet() bool {
	_, err := os.Stat(m.file)
	return err == nil
}

func (m mark) set() error {
	if err := os.MkdirAll(filepath.Dir(m.file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(m.file, nil, 0o644)
}
