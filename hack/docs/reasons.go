package main

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// troubleshooting is the page with the hand-written table of conditions and reasons.
const troubleshooting = "docs/troubleshooting.md"

// machineConditions returns the conditions of Metal3Machines that their page explains. The reasons of Ready and Paused
// for all kinds are on the page for troubleshooting only.
func machineConditions() []string {
	return []string{
		infrav1.HostAssociatedCondition, infrav1.DataReadyCondition, infrav1.DataAssociatedCondition,
		infrav1.HostProvisionedCondition, infrav1.NodeLinkedCondition, infrav1.NodeLabelsSyncedCondition,
		infrav1.DeletingCondition,
	}
}

// allKinds are the kinds of a condition in a row that is about all kinds.
const allKinds = "all kinds"

// conditionCell is a condition in the first column. The kinds behind it are also those of the conditions before it.
var conditionCell = regexp.MustCompile("`(\\w+)`(?: \\(([^)]*)\\))?")

// conditionsOf returns the kinds of each condition in the first column of a row, in the order of the conditions.
func conditionsOf(cell string) []rowCondition {
	var found []rowCondition
	kinds := allKinds
	for _, match := range slices.Backward(conditionCell.FindAllStringSubmatch(cell, -1)) {
		kinds = cmp.Or(match[2], kinds)
		found = append(found, rowCondition{match[1], strings.Split(kinds, ", ")})
	}
	slices.Reverse(found)
	return found
}

// rowCondition is a condition in a row of the table.
type rowCondition struct {
	name  string
	kinds []string
}

// isOf returns true if the row is about this condition of a kind.
func (c rowCondition) isOf(kind string) bool {
	return slices.Contains(c.kinds, kind) || slices.Contains(c.kinds, allKinds)
}

// reasonRows returns the rows of the tables with four columns of a page.
func reasonRows(page string) [][]string {
	var rows [][]string
	for line := range strings.Lines(page) {
		if row := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | "); len(row) == 4 {
			rows = append(rows, row)
		}
	}
	return rows
}

// machineReasons returns the rows about Metal3Machines in the table for troubleshooting, for the page of the kind.
func machineReasons(root string) (string, error) {
	const kind = "Metal3Machine"
	content, err := os.ReadFile(filepath.Join(root, troubleshooting))
	if err != nil {
		return "", fmt.Errorf("reading the reasons: %w", err)
	}
	var rows [][]string
	for _, row := range reasonRows(string(content)) {
		var names []string
		for _, each := range conditionsOf(row[0]) {
			if slices.Contains(each.kinds, kind) || each.isOf(kind) && slices.Contains(machineConditions(), each.name) {
				names = append(names, "`"+each.name+"`")
			}
		}
		if len(names) == 0 {
			continue
		}
		row[0] = strings.Join(names, ", ")
		for i := range row {
			row[i] = strings.NewReplacer("](spec/", "](", `\|`, "|").Replace(row[i])
		}
		rows = append(rows, row)
	}
	return table([]string{"Condition", "Reason", "Meaning", "What to do"}, rows), nil
}
