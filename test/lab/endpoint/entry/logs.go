package entry

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

const (
	// watchEvery is how often the folder of logs is looked at.
	watchEvery = 2 * time.Second
	// logAge is how old an archive has to be: Ironic writes no more to it.
	logAge = time.Second
	// logLimit is how many bytes of one file of an archive are printed.
	logLimit = 1 << 20
)

// watchLogs prints the archives of logs that appear in a folder, and removes them, until the context ends. The folder
// may appear later.
func watchLogs(ctx context.Context, folder string, output io.Writer) error {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for {
		if err := printLogs(folder, time.Now().Add(-logAge), output); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// printLogs prints and removes every archive that is not newer than a time.
func printLogs(folder string, newest time.Time, output io.Writer) error {
	archives, err := filepath.Glob(filepath.Join(folder, "*"+archiveSuffix))
	if err != nil {
		return err
	}
	for _, archive := range archives {
		status, err := os.Stat(archive)
		if err != nil {
			return err
		}
		if status.ModTime().After(newest) {
			continue
		}
		// What cannot be read is removed like what was printed: it would be tried for ever.
		if err := printArchive(archive, output); err != nil {
			fmt.Fprintf(output, "%s: %v\n", filepath.Base(archive), err)
		}
		if err := os.Remove(archive); err != nil {
			return err
		}
	}
	return nil
}

func printArchive(name string, output io.Writer) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	content, err := gzip.NewReader(file)
	if err != nil {
		return err
	}
	archive := tar.NewReader(content)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if header.Typeflag != tar.TypeReg {
			continue
		}
		fmt.Fprintf(output, "%s: %s:\n", filepath.Base(name), header.Name)
		if _, err := io.Copy(output, io.LimitReader(archive, logLimit)); err != nil {
			return err
		}
		fmt.Fprintln(output)
	}
}
