package entry

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// archiveOf returns a compressed archive of files.
func archiveOf(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var content bytes.Buffer
	compressed := gzip.NewWriter(&content)
	archive := tar.NewWriter(compressed)
	// Sorted, so that the same files give the same bytes.
	for _, name := range slices.Sorted(maps.Keys(files)) {
		text := files[name]
		err := archive.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o600, Size: int64(len(text))})
		if err == nil {
			_, err = io.WriteString(archive, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(archive.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	return content.Bytes()
}

func TestPrintLogs(t *testing.T) {
	folder, now := t.TempDir(), time.Now()
	for name, file := range map[string]struct {
		content []byte
		age     time.Duration
	}{
		"old.tar.gz":    {archiveOf(t, map[string]string{"journal": "disk is bad"}), time.Minute},
		"new.tar.gz":    {archiveOf(t, map[string]string{"journal": "half of"}), 0},
		"broken.tar.gz": {[]byte("no archive"), time.Minute},
		"other.txt":     {[]byte("no archive"), time.Minute},
	} {
		path := filepath.Join(folder, name)
		err := errors.Join(os.WriteFile(path, file.content, 0o600), os.Chtimes(path, now, now.Add(-file.age)))
		if err != nil {
			t.Fatal(err)
		}
	}
	var output strings.Builder
	if err := printLogs(folder, now.Add(-logAge), &output); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"old.tar.gz: journal:\ndisk is bad\n", "broken.tar.gz: gzip"} {
		if !strings.Contains(output.String(), want) {
			t.Errorf("%q is not in %q", want, output.String())
		}
	}
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil || len(left) != 2 || filepath.Base(left[0]) != "new.tar.gz" || filepath.Base(left[1]) != "other.txt" {
		t.Errorf("left are %v, %v", left, err)
	}
}

func TestWatchLogsEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := watchLogs(ctx, filepath.Join(t.TempDir(), "not", "there", "yet"), io.Discard); err != nil {
		t.Error(err)
	}
}
