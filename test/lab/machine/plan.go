package machine

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// The numbers with which the program that sets a machine up says how the machine's operating system ended. Every other
// number means that it failed, and that the power is still on.
const (
	ExitPoweredOff = 40
	ExitRebooting  = 41
)

// The groups inside of a machine's control group.
const (
	// SystemGroup is what the operating system sees as the top.
	SystemGroup = "os"
	// LabGroup holds the lab's own processes that belong to the machine.
	LabGroup = "lab"
)

// Plan tells the program that sets a machine up what to set up.
type Plan struct {
	// Group is the path of the machine's control group.
	Group string `json:"group"`
	// Namespace is the name of the machine's network namespace.
	Namespace string `json:"namespace"`
	// Lower is the root file system of the installed image, which machines share and do not write to.
	Lower string `json:"lower"`
	// Upper and Work are what the machine's own changes go to.
	Upper string `json:"upper"`
	Work  string `json:"work"`
	// Root is an empty folder to mount on.
	Root string `json:"root"`
	// Binds are folders of the disk that are plain, not layered, by where the machine sees them.
	Binds map[string]string `json:"binds"`
}

// ReadPlan reads what write wrote.
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
