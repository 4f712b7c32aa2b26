package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// layer writes the only layer of an image.
type layer struct {
	archive *tar.Writer

	// written are the written paths.
	written map[string]bool

	// shared is the first path of each file of the folder with several links.
	shared map[uint64]string
}

func writeLayer(to io.Writer, image Image) error {
	layer := layer{archive: tar.NewWriter(to), written: map[string]bool{"/": true}, shared: map[uint64]string{}}
	if image.Folder != "" {
		if err := layer.addFolder(image.Folder); err != nil {
			return fmt.Errorf("adding the folder %s: %w", image.Folder, err)
		}
	}
	// Programs expect a folder for temporary files for any user.
	if err := layer.addParents("/tmp/any", 0o1777); err != nil {
		return err
	}
	files := slices.SortedFunc(slices.Values(image.Files), func(a, b File) int { return cmp.Compare(a.Path, b.Path) })
	for _, file := range files {
		if err := layer.addFile(file); err != nil {
			return fmt.Errorf("adding %s: %w", file.Path, err)
		}
	}
	return layer.archive.Close()
}

func (l layer) addFile(file File) error {
	if !path.IsAbs(file.Path) || path.Clean(file.Path) != file.Path {
		return errors.New("the path of a file in an image must be absolute and clean, such as /usr/bin/program")
	}
	if err := l.addParents(file.Path, 0o755); err != nil {
		return err
	}
	l.written[file.Path] = true
	switch {
	case file.Link != "":
		return l.archive.WriteHeader(&tar.Header{
			Typeflag: tar.TypeSymlink, Name: entryName(file.Path), Linkname: file.Link, Mode: 0o777,
		})
	case file.From != "":
		return l.copyFrom(file)
	default:
		return addEntry(l.archive, entryName(file.Path), int64(len(file.Content)), bytes.NewReader(file.Content))
	}
}

func (l layer) copyFrom(file File) error {
	from, err := os.Open(file.From)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }()
	status, err := from.Stat()
	if err != nil {
		return err
	}
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: entryName(file.Path), Size: status.Size(), Mode: int64(status.Mode().Perm()),
	}
	if err := l.archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = io.Copy(l.archive, from)
	return err
}

// addParents adds missing parent folders of a path.
func (l layer) addParents(name string, mode int64) error {
	parent := path.Dir(name)
	if l.written[parent] {
		return nil
	}
	if err := l.addParents(parent, 0o755); err != nil {
		return err
	}
	l.written[parent] = true
	return l.archive.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: entryName(parent) + "/", Mode: mode})
}

// addFolder adds a root file system. It keeps times, to the second, because Python recompiles modules with another
// time.
func (l layer) addFolder(folder string) error {
	return filepath.WalkDir(folder, func(source string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(source, filepath.Clean(folder))
		if name == "" || entry.Type()&(fs.ModeDevice|fs.ModeSocket|fs.ModeNamedPipe) != 0 {
			return nil
		}
		return l.addFolderEntry(name, source, entry)
	})
}

func (l layer) addFolderEntry(name, source string, entry fs.DirEntry) error {
	status, err := entry.Info()
	if err != nil {
		return err
	}
	raw, ok := status.Sys().(*syscall.Stat_t)
	if !ok {
		return errors.New("the owner of the file is unknown")
	}
	l.written[name] = true
	header := &tar.Header{
		Typeflag: tar.TypeReg, Name: entryName(name), Mode: int64(raw.Mode & 0o7777),
		Uid: int(raw.Uid), Gid: int(raw.Gid), ModTime: time.Unix(raw.Mtim.Sec, 0),
	}
	first, isShared := l.shared[raw.Ino]
	switch {
	case entry.IsDir():
		header.Typeflag, header.Name = tar.TypeDir, header.Name+"/"
	case entry.Type()&fs.ModeSymlink != 0:
		header.Typeflag = tar.TypeSymlink
		if header.Linkname, err = os.Readlink(source); err != nil {
			return err
		}
	case isShared:
		header.Typeflag, header.Linkname = tar.TypeLink, entryName(first)
	default:
		header.Size = status.Size()
		if raw.Nlink > 1 {
			l.shared[raw.Ino] = name
		}
	}
	if err := l.archive.WriteHeader(header); err != nil || header.Typeflag != tar.TypeReg {
		return err
	}
	return l.copyContent(source)
}

func (l layer) copyContent(source string) error {
	file, err := os.Open(source)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	_, err = io.Copy(l.archive, file)
	return err
}

// entryName returns the name of a path in a layer.
func entryName(name string) string { return strings.TrimPrefix(name, "/") }
