package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"time"
)

// searchPath is the PATH of containers, as in other images.
const searchPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Image is a container image to pack: a root file system, files, or files on top of a root file system.
type Image struct {
	// Names are the references of the image, each with a registry and a tag. At least one.
	Names []string

	// Folder is a root file system, which is packed with owners, modes and times, without devices, sockets and file
	// capabilities. Empty means none.
	Folder string

	// Files are added after the folder, owned by root.
	Files []File

	// Entrypoint is the program and its first arguments. Empty if the pod names the program.
	Entrypoint []string

	// Environment has entries NAME=VALUE in addition to PATH.
	Environment []string

	// User is the user of the program, as "UID:GID". Empty means root.
	User string

	// Key changes with the content of the image. Ensure requires it; Pack ignores it.
	Key string
}

// File is one file of an image. At most one of From, Content and Link is set. None means an empty file.
type File struct {
	// Path in the image, absolute, without symbolic links of the image.
	Path string

	// From is a file of this machine that is copied with its permissions.
	From string

	// Content of a file that all users may read.
	Content []byte

	// Link is the destination of a symbolic link.
	Link string
}

// Pack writes an image to a tar archive in the format of docker save. The same image gives the same bytes. The layer is
// not compressed, because compressing takes longer than it saves on one machine.
func Pack(image Image, target string) (err error) {
	if len(image.Names) == 0 {
		return fmt.Errorf("packing %s: an image requires a name, such as registry.example/program:v1", target)
	}
	layer, err := os.Create(target + ".layer")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, layer.Close(), os.Remove(layer.Name())) }()
	hash := sha256.New()
	if err := writeLayer(io.MultiWriter(layer, hash), image); err != nil {
		return fmt.Errorf("packing %s: %w", image.Names[0], err)
	}
	digest := hex.EncodeToString(hash.Sum(nil))
	partial := target + ".partial"
	if err := writeArchive(partial, image, digest, layer); err != nil {
		return errors.Join(fmt.Errorf("packing %s: %w", image.Names[0], err), os.RemoveAll(partial))
	}
	return os.Rename(partial, target)
}

// settings is the configuration of an image.
type settings struct {
	Created      time.Time  `json:"created"`
	Architecture string     `json:"architecture"`
	System       string     `json:"os"`
	Process      process    `json:"config"`
	Content      content    `json:"rootfs"`
	History      []creation `json:"history"`
}

type process struct {
	User        string   `json:"User,omitempty"`
	Entrypoint  []string `json:"Entrypoint,omitempty"`
	Environment []string `json:"Env"`
	Folder      string   `json:"WorkingDir"`
}

type content struct {
	Type   string   `json:"type"`
	Layers []string `json:"diff_ids"`
}

type creation struct {
	Created time.Time `json:"created"`
}

// listing is the manifest of docker save: the paths of the parts of an image in the archive.
type listing struct {
	Settings string   `json:"Config"`
	Names    []string `json:"RepoTags"`
	Layers   []string `json:"Layers"`
}

func writeArchive(target string, image Image, digest string, layer *os.File) (err error) {
	epoch := time.Unix(0, 0).UTC()
	encoded, err := json.Marshal(settings{
		Created: epoch, Architecture: runtime.GOARCH, System: "linux",
		Process: process{
			User: image.User, Entrypoint: image.Entrypoint, Folder: "/",
			Environment: append([]string{searchPath}, image.Environment...),
		},
		Content: content{Type: "layers", Layers: []string{"sha256:" + digest}},
		History: []creation{{Created: epoch}},
	})
	if err != nil {
		return err
	}
	sum := sha256.Sum256(encoded)
	settingsName, layerName := hex.EncodeToString(sum[:])+".json", digest+".tar"
	list, err := json.Marshal([]listing{{Settings: settingsName, Names: image.Names, Layers: []string{layerName}}})
	if err != nil {
		return err
	}
	length, err := layer.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	if _, err := layer.Seek(0, io.SeekStart); err != nil {
		return err
	}
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	archive := tar.NewWriter(file)
	return errors.Join(
		addEntry(archive, "manifest.json", int64(len(list)), bytes.NewReader(list)),
		addEntry(archive, settingsName, int64(len(encoded)), bytes.NewReader(encoded)),
		addEntry(archive, layerName, length, layer),
		archive.Close(),
	)
}

func addEntry(archive *tar.Writer, name string, length int64, content io.Reader) error {
	if err := archive.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: length}); err != nil {
		return err
	}
	_, err := io.Copy(archive, content)
	return err
}
