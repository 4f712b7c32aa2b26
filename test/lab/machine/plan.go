package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Exit codes of the program that sets a machine up, for the end of the operating system. Every other code is an error,
// and the power stays on.
const (
	ExitPoweredOff = 40
	ExitRebooting  = 41
)

// The groups inside of a machine's control group.
const (
	// SystemGroup is the root group of the operating system.
	SystemGroup = "os"
	// LabGroup is the group of the lab's own processes for the machine.
	LabGroup = "lab"
)

// Plan is the input of the program that sets a machine up.
type Plan struct {
	// Group is the path of the control group of the machine.
	Group string `json:"group"`
	// Namespace is the name of the network namespace of the machine.
	Namespace string `json:"namespace"`
	// Lower is the root file system of the image, which machines share and do not write to.
	Lower string `json:"lower"`
	// Upper and Work are the folders of the changes of the machine.
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// Root is an empty folder for mounts.
	Root string `json:"root"`
	// Binds are plain folders of the disk, without layers, by their mount points on the machine.
	Binds map[string]string `json:"binds"`
}

// ReadPlan reads a plan of write.
func ReadPlan(file string) (Plan, error) {
	var plan Plan
	content, err := os.ReadFile(file)
	if err != nil {
		return plan, fmt.Errorf("reading the plan of a machine: %w", err)
	}
	if err := json.Unmarshal(content, &plan); err != nil {
		return plan, fmt.Errorf("reading the plan of a machine from %s: %w", file, err)
	}
	return plan, nil
}

func (p Plan) write(file string) error {
	content, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(file, content, 0o644)
}
