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
	// watchEvery is the interval of checks of the folder of logs.
	watchEvery = 2 * time.Second
	// logAge is the minimum age of an archive, to which Ironic writes no more.
	logAge = time.Second
	// logLimit is the maximum number of printed bytes of one file of an archive.
	logLimit = 1 << 20
)

// watchLogs prints and removes the archives of logs that appear in a folder, until the context ends. The folder may be
// created later.
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

// printLogs prints and removes all archives that are not newer than a time.
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
		// An unreadable archive is removed too. Otherwise it would be tried again.
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
