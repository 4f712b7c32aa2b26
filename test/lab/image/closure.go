package image

import (
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// longestChain is the maximum number of symbolic links of a path, as in the kernel.
const longestChain = 40

// Programs returns the files of an image with programs of a root file system: the programs, their libraries, and the
// links to them. A name without a slash is looked up in the usual folders. A name with a slash is a pattern of paths,
// for files that a program opens.
func Programs(root string, names ...string) ([]File, error) {
	closure := closure{root: filepath.Clean(root), files: map[string]File{}}
	if err := closure.addTopLinks(); err != nil {
		return nil, err
	}
	for _, name := range names {
		paths, err := closure.find(name)
		if err != nil {
			return nil, err
		}
		for _, found := range paths {
			if err := closure.add(found); err != nil {
				return nil, fmt.Errorf("collecting the files of %s: %w", name, err)
			}
		}
	}
	return slices.SortedFunc(maps.Values(closure.files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) }), nil
}

// closure collects files of a root file system, by their paths in it.
type closure struct {
	root  string
	files map[string]File
}

// addTopLinks adds the links at the top, such as /lib64, which programs use in the path of their loader.
func (c closure) addTopLinks() error {
	entries, err := os.ReadDir(c.root)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.Type()&fs.ModeSymlink == 0 {
			continue
		}
		destination, err := os.Readlink(filepath.Join(c.root, entry.Name()))
		if err != nil {
			return err
		}
		c.files["/"+entry.Name()] = File{Path: "/" + entry.Name(), Link: destination}
	}
	return nil
}

func (c closure) find(name string) ([]string, error) {
	patterns := []string{name}
	if !strings.Contains(name, "/") {
		patterns = []string{"/usr/local/sbin/" + name, "/usr/local/bin/" + name, "/usr/sbin/" + name, "/usr/bin/" + name}
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(c.root, pattern))
		if err != nil {
			return nil, fmt.Errorf("looking for %s: %w", name, err)
		}
		for i := range found {
			found[i] = strings.TrimPrefix(found[i], c.root)
		}
		if len(found) > 0 {
			return found, nil
		}
	}
	return nil, fmt.Errorf("%s is not in %s: add its package", name, c.root)
}

// add adds a file with its requested name, and its dependencies.
func (c closure) add(name string) error {
	folder, err := c.resolve(path.Dir(name))
	if err != nil {
		return err
	}
	name = path.Join(folder, path.Base(name))
	if _, known := c.files[name]; known {
		return nil
	}
	file, err := c.resolve(name)
	if err != nil {
		return err
	}
	if file != name {
		c.files[name] = File{Path: name, Link: file}
		return c.add(file)
	}
	c.files[name] = File{Path: name, From: filepath.Join(c.root, name)}
	needed, err := c.needed(name)
	if err != nil {
		return err
	}
	for _, library := range needed {
		if err := c.add(library); err != nil {
			return err
		}
	}
	return nil
}

// needed returns the paths of the loader and the libraries of a program or a library. Other files, such as scripts,
// have no known dependencies.
func (c closure) needed(name string) ([]string, error) {
	file, err := elf.Open(filepath.Join(c.root, name))
	var format *elf.FormatError
	if errors.As(err, &format) || errors.Is(err, io.EOF) {
		// Of another format, or too short for any.
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var needed []string
	if section := file.Section(".interp"); section != nil {
		loader, err := section.Data()
		if err != nil {
			return nil, err
		}
		needed = append(needed, strings.TrimRight(string(loader), "\x00"))
	}
	libraries, err := file.ImportedLibraries()
	if err != nil {
		return nil, fmt.Errorf("reading the libraries of %s: %w", name, err)
	}
	for _, library := range libraries {
		found, err := c.findLibrary(library)
		if err != nil {
			return nil, err
		}
		needed = append(needed, found)
	}
	return needed, nil
}

func (c closure) findLibrary(name string) (string, error) {
	for _, pattern := range []string{"/usr/lib/*-linux-gnu", "/usr/lib/*-linux-gnu/*", "/usr/lib", "/usr/lib64"} {
		found, err := filepath.Glob(filepath.Join(c.root, pattern, name))
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return strings.TrimPrefix(found[0], c.root), nil
		}
	}
	return "", fmt.Errorf("the library %s is not in %s", name, c.root)
}

// resolve follows every symbolic link of a path, with the root file system as the root.
func (c closure) resolve(name string) (string, error) {
	resolved, rest := "/", strings.Split(strings.Trim(path.Clean(name), "/"), "/")
	for links := 0; len(rest) > 0; {
		next := path.Join(resolved, rest[0])
		rest = rest[1:]
		destination, err := os.Readlink(filepath.Join(c.root, next))
		switch {
		case errors.Is(err, os.ErrNotExist):
			return "", err
		case err != nil:
			// Not a link.
			resolved = next
			continue
		}
		if links++; links > longestChain {
			return "", fmt.Errorf("the symbolic links of %s do not end", name)
		}
		if path.IsAbs(destination) {
			resolved = "/"
		}
		rest = append(strings.Split(strings.Trim(path.Clean(destination), "/"), "/"), rest...)
	}
	return resolved, nil
}
