// Package track writes the files that keepalived and the other pods of the node watch.
//
// A file contains "1" or "0". Any other content, and a missing file, means 0, as for keepalived. A file is replaced
// atomically.
package track

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// Names of the files in the state directory.
const (
	// IronicOK is 1 if the Ironic of this node is healthy.
	IronicOK = vip.HealthFile

	// Armed is 1 if the policy lets this node hold the VIP.
	Armed = vip.ArmedFile

	// Holder is 1 if this node holds the VIP.
	Holder = "holder"

	// Term contains the term of the VIP that the database of Ironic on this node belongs to: see package term.
	Term = "term"

	// Interface contains the name of the interface that carries the VIP on this node.
	Interface = "interface"
)

// HandedOver is a folder in the state directory with one file for each clusterID that was handed over to its control
// plane. The guard only reads it.
const HandedOver = "handed-over"

// Value returns the content of a file.
func Value(yes bool) string {
	if yes {
		return "1\n"
	}
	return "0\n"
}

// Ensure writes the value unless the file contains it.
func Ensure(path string, yes bool) error {
	return Say(path, Value(yes))
}

// Say writes the text unless the file contains it.
func Say(path, text string) error {
	data, err := os.ReadFile(path)
	if err == nil && string(data) == text {
		return nil
	}
	return Replace(path, []byte(text), 0o644)
}

// Replace replaces a file atomically. It creates a missing directory.
func Replace(path string, content []byte, mode os.FileMode) error {
	directory := filepath.Dir(path)
	//nolint:gosec // Pods that are not root read the state too.
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", directory, err)
	}
	// The leading dot hides the file from readers of the directory.
	file, err := os.CreateTemp(directory, "."+filepath.Base(path)+"-*")
	if err != nil {
		return fmt.Errorf("writing %s: %w", path, err)
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = os.Rename(file.Name(), path)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("writing %s: %w", path, err)
	}
	return nil
}
