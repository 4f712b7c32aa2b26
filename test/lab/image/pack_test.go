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
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// unpacked is the content of an archive.
type unpacked struct {
	listing  listing
	settings settings
	layer    map[string]string
}

func entries(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	found := map[string]string{}
	for reader := tar.NewReader(from); ; {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(reader)
		if err != nil {
			t.Fatal(err)
		}
		switch header.Typeflag {
		case tar.TypeSymlink:
			content = []byte("-> " + header.Linkname)
		case tar.TypeLink:
			content = []byte("= " + header.Linkname)
		}
		if _, twice := found[header.Name]; twice {
			t.Errorf("%s has two entries", header.Name)
		}
		found[header.Name] = fmt.Sprintf("%04o %s", header.Mode, content)
	}
}

// unpack reads the parts in the listing of an archive and checks that their names are their checksums.
func unpack(t *testing.T, path string) unpacked {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	parts := entries(t, bytes.NewReader(content))
	part := func(name string) []byte { return []byte(strings.TrimPrefix(parts[name], "0644 ")) }
	var found unpacked
	var listings []listing
	if err := json.Unmarshal(part("manifest.json"), &listings); err != nil || len(listings) != 1 {
		t.Fatalf("%d images, %v", len(listings), err)
	}
	found.listing = listings[0]
	if err := json.Unmarshal(part(found.listing.Settings), &found.settings); err != nil {
		t.Fatal(err)
	}
	if len(found.listing.Layers) != 1 || len(parts) != 3 {
		t.Fatalf("%v in %d parts", found.listing, len(parts))
	}
	layer := part(found.listing.Layers[0])
	sum := sha256.Sum256(layer)
	if want := []string{"sha256:" + hex.EncodeToString(sum[:])}; !slices.Equal(found.settings.Content.Layers, want) {
		t.Errorf("the settings name the layers %v, not %v", found.settings.Content.Layers, want)
	}
	found.layer = entries(t, bytes.NewReader(layer))
	return found
}

func write(t *testing.T, path, content string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPackFiles(t *testing.T) {
	folder := t.TempDir()
	program := write(t, filepath.Join(folder, "program"), "run", 0o755)
	target := filepath.Join(folder, "image.tar")
	image := Image{
		Names: []string{"lab.invalid/one:v1", "lab.invalid/two:v2"},
		Files: []File{
			{Path: "/usr/bin/program", From: program},
			{Path: "/bin", Link: "usr/bin"},
			{Path: "/etc/note", Content: []byte("hello")},
		},
		Entrypoint:  []string{"/usr/bin/program", "serve"},
		Environment: []string{"A=b"},
		User:        "65532:65532",
	}
	if err := Pack(image, target); err != nil {
		t.Fatal(err)
	}
	found := unpack(t, target)
	if diff := cmp.Diff(image.Names, found.listing.Names); diff != "" {
		t.Error(diff)
	}
	want := process{User: image.User, Entrypoint: image.Entrypoint, Environment: []string{searchPath, "A=b"}, Folder: "/"}
	if diff := cmp.Diff(want, found.settings.Process); diff != "" {
		t.Error(diff)
	}
	layer := map[string]string{
		"tmp/": "1777 ", "usr/": "0755 ", "usr/bin/": "0755 ", "etc/": "0755 ",
		"bin": "0777 -> usr/bin", "etc/note": "0644 hello", "usr/bin/program": "0755 run",
	}
	if diff := cmp.Diff(layer, found.layer); diff != "" {
		t.Error(diff)
	}
	left, err := filepath.Glob(target + ".*")
	if err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestPackMakesTheSameBytes(t *testing.T) {
	folder := t.TempDir()
	files := []File{{Path: "/b", Content: []byte("b")}, {Path: "/a/a", From: write(t, filepath.Join(folder, "a"), "a", 0o644)}}
	var archives [][]byte
	for i := range 2 {
		target := filepath.Join(folder, fmt.Sprint(i))
		if err := Pack(Image{Names: []string{"lab.invalid/same:v1"}, Files: files}, target); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(target)
		if err != nil {
			t.Fatal(err)
		}
		archives = append(archives, content)
		// The order of the files and their times do not change the image.
		slices.Reverse(files)
		if err := os.Chtimes(filepath.Join(folder, "a"), time.Unix(1, 0), time.Unix(1, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same image differ")
	}
}

func TestPackFolder(t *testing.T) {
	folder := t.TempDir()
	root := filepath.Join(folder, "root")
	first := write(t, filepath.Join(root, "usr/lib/first"), "shared", 0o640)
	if err := errors.Join(
		os.Link(first, filepath.Join(root, "usr/lib/second")),
		os.Symlink("usr/lib", filepath.Join(root, "lib")),
		os.Mkdir(filepath.Join(root, "tmp"), 0o700),
		os.Mkdir(filepath.Join(root, "var"), 0o700),
		os.Chmod(filepath.Join(root, "usr"), 0o755|os.ModeSetgid),
	); err != nil {
		t.Fatal(err)
	}
	target := filepath.Join(folder, "image.tar")
	image := Image{Names: []string{"lab.invalid/root:v1"}, Folder: root, Files: []File{{Path: "/usr/lib/third"}}}
	if err := Pack(image, target); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"lib": "0777 -> usr/lib", "tmp/": "0700 ", "usr/": "2755 ", "usr/lib/": "0755 ", "var/": "0700 ",
		"usr/lib/first": "0640 shared", "usr/lib/second": "0640 = usr/lib/first", "usr/lib/third": "0644 ",
	}
	if diff := cmp.Diff(want, unpack(t, target).layer); diff != "" {
		t.Error(diff)
	}
}

func TestPackRefuses(t *testing.T) {
	names := []string{"lab.invalid/image:v1"}
	for name, test := range map[string]struct {
		image Image
		want  string
	}{
		"no name":         {Image{}, "requires a name"},
		"a relative path": {Image{Names: names, Files: []File{{Path: "bin/program"}}}, "absolute"},
		"an unclean path": {Image{Names: names, Files: []File{{Path: "/bin/../program"}}}, "clean"},
		"a missing file":  {Image{Names: names, Files: []File{{Path: "/a", From: "/nowhere/at/all"}}}, "/nowhere/at/all"},
		"a missing root":  {Image{Names: names, Folder: "/nowhere/at/all"}, "/nowhere/at/all"},
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			err := Pack(test.image, filepath.Join(folder, "image.tar"))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
			if left, err := os.ReadDir(folder); err != nil || len(left) != 0 {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
