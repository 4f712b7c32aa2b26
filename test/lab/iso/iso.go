// Package iso reads images of ISO 9660: config drives, and the virtual media that Ironic builds.
//
// It returns an error for images without Rock Ridge names: plain ISO 9660 truncates names, which cloud-init does not
// find.
package iso

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"fmt"
	"io"
	"path"

	"github.com/kdomanski/iso9660"
)

const (
	// Limit is the maximum size of an image in bytes.
	Limit = 256 << 20
	// maxDepth is the maximum depth of folders. A broken image could contain itself.
	maxDepth = 10
)

// ReadPacked reads the files of a config drive in the format of Ironic, by their paths: an image in gzip in base64.
func ReadPacked(body io.Reader) (map[string][]byte, error) {
	// The decoder skips line breaks.
	compressed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, body))
	if err != nil {
		return nil, fmt.Errorf("unpacking gzip in base64: %w", err)
	}
	image, err := io.ReadAll(io.LimitReader(compressed, Limit+1))
	if err != nil {
		return nil, fmt.Errorf("unpacking gzip in base64: %w", err)
	}
	if len(image) > Limit {
		return nil, fmt.Errorf("the content has more than %d MiB", Limit>>20)
	}
	return Read(image)
}

// Read reads the files of an image, by their paths. The library panics if a length in the image is invalid.
func Read(content []byte) (files map[string][]byte, err error) {
	defer func() {
		if failure := recover(); failure != nil {
			files, err = nil, fmt.Errorf("the ISO 9660 image is broken: %v", failure)
		}
	}()
	image, err := iso9660.OpenImage(bytes.NewReader(content))
	if err != nil {
		return nil, fmt.Errorf("opening the ISO 9660 image: %w", err)
	}
	root, err := image.RootDir()
	if err != nil {
		return nil, fmt.Errorf("opening the ISO 9660 image: %w", err)
	}
	files = map[string][]byte{}
	if err := readFolder(root, "", maxDepth, files); err != nil {
		return nil, err
	}
	return files, nil
}

func readFolder(folder *iso9660.File, place string, depth int, files map[string][]byte) error {
	if depth == 0 {
		return fmt.Errorf("the folder %s is more than %d folders deep", place, maxDepth)
	}
	all, err := folder.GetAllChildren()
	if err != nil {
		return fmt.Errorf("reading the folder /%s: %w", place, err)
	}
	// Each folder contains itself and its parent.
	if len(all) < 2 {
		return fmt.Errorf("reading the folder /%s: the image is cut off", place)
	}
	children, err := folder.GetChildren()
	if err != nil {
		return fmt.Errorf("reading the folder /%s: %w", place, err)
	}
	for _, child := range children {
		name := path.Join(place, child.Name())
		// Plain ISO 9660 has no permissions.
		if child.Mode().Perm() == 0 {
			return fmt.Errorf("the name of /%s may have been cut: pack the image with Rock Ridge names", name)
		}
		if child.IsDir() {
			if err := readFolder(child, name, depth-1, files); err != nil {
				return err
			}
			continue
		}
		if files[name], err = io.ReadAll(child.Reader()); err != nil {
			return fmt.Errorf("reading the file /%s: %w", name, err)
		}
		if int64(len(files[name])) != child.Size() {
			return fmt.Errorf("reading the file /%s: the image is cut off", name)
		}
	}
	return nil
}
