package verdict

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/internal/testkit/binaries"
)

// Ignition is a program with Ignition's validators, and with the renderer of the kubeadm bootstrap provider. It has its
// own module because the product requires neither.
type Ignition struct {
	program string
}

// Accepted is the result of Ignition for a valid config.
type Accepted struct {
	Files    []IgnitionFile
	Warnings []string
}

// IgnitionFile is a file as Ignition would write it.
type IgnitionFile struct {
	Path      string
	Mode      uint32
	Content   []byte
	Overwrite bool
}

// NewIgnition returns the program, which it builds unless it is cached.
func NewIgnition(t *testing.T) Ignition {
	t.Helper()
	root, err := binaries.Root()
	if err != nil {
		t.Fatal(err)
	}
	folder, err := binaries.Ensure(t.Context(), root, binaries.Ignition(), os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	return Ignition{filepath.Join(folder, "ignition")}
}

// Validate fails the test if Ignition does not accept the config.
func (i Ignition) Validate(t *testing.T, config []byte) Accepted {
	t.Helper()
	var said Accepted
	if err := json.Unmarshal(run(t, config, i.program, "validate"), &said); err != nil {
		t.Fatal(err)
	}
	return said
}

// Render returns the config of the kubeadm bootstrap provider for the first control-plane machine, or for another one.
func (i Ignition) Render(t *testing.T, first bool) []byte {
	t.Helper()
	command := "render-join"
	if first {
		command = "render-init"
	}
	return run(t, nil, i.program, command)
}
