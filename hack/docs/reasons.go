package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// troubleshooting is the page with the hand-written table of conditions and reasons.
const troubleshooting = "docs/troubleshooting.md"

// machineConditions are the conditions of Metal3Machines only.
func machineConditions() []string {
	return []string{
		infrav1.HostAssociatedCondition, infrav1.DataReadyCondition, infrav1.HostProvisionedCondition,
		infrav1.NodeLinkedCondition, "(Metal3Machine)",
	}
}

// machineReasons returns the rows about Metal3Machines in the table for troubleshooting, for the page of the kind.
func machineReasons(root string) (string, error) {
	content, err := os.ReadFile(filepath.Join(root, troubleshooting))
	if err != nil {
		return "", fmt.Errorf("reading the reasons: %w", err)
	}
	var rows [][]string
	for line := range strings.Lines(string(content)) {
		row := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		about := func(condition string) bool { return strings.Contains(row[0], condition) }
		if len(row) != 4 || !slices.ContainsFunc(machineConditions(), about) {
			continue
		}
		row[0] = strings.ReplaceAll(row[0], " (Metal3Machine)", "")
		for i := range row {
			row[i] = strings.NewReplacer("](spec/", "](", `\|`, "|").Replace(row[i])
		}
		rows = append(rows, row)
	}
	return table([]string{"Condition", "Reason", "Meaning", "What to do"}, rows), nil
}
