// Package track writes the files that keepalived and the other pods of the node watch: whether Ironic is well, whether
// this node may hold the VIP, and whether it holds the VIP.
//
// A file says "1" or "0". Whatever else it says, and a file that is missing, means 0: keepalived reads it the same way.
// A file is replaced in one step, so that no reader gets half of it.
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
	// IronicOK says whether the Ironic of this node is well.
	IronicOK = vip.HealthFile

	// Armed says whether the policy lets this node hold the address.
	Armed = vip.ArmedFile

	// Holder says whether this node holds the address.
	Holder = "holder"

	// Term says which term of the VIP the database of Ironic on this node belongs to: see package term.
	Term = "term"

	// Interface has the name of the interface that carries the address on this node.
	Interface = "interface"
)

// HandedOver is a folder in the state directory with one file for each clusterID that the management side gave to its
// own control plane. The guard only reads it.
const HandedOver = "handed-over"

// Value is what a file says.
func Value(yes bool) string {
	if yes {
		return "1\n"
	}
	return "0\n"
}

// Ensure makes the file say the value. It writes nothing when the file does already.
func Ensure(path string, yes bool) error {
	return Say(path, Value(yes))
}

// Say makes the file say the text. It writes nothing when the file does already.
func Say(path, text string) error {
	data, err := os.ReadFile(path)
	if err == nil && string(data) == text {
		return nil
	}
	return Replace(path, []byte(text))
}

// Replace writes a file in one step: readers see the old or the new content. The directory is created when missing.
func Replace(path string, content []byte) error {
	return ReplaceMode(path, content, 0o644)
}

// ReplaceMode is Replace for a file with other permissions.
func ReplaceMode(path string, content []byte, mode os.FileMode) error {
	directory := filepath.Dir(path)
	//nolint:gosec // Pods that are not root read the state too.
	if err := os.MkdirAll(directory, 0o755); err != nil {
		return fmt.Errorf("creating %s: %w", directory, err)
	}
	// The leading dot keeps readers of directories away.
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
