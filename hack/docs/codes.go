package main

import (
	"fmt"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// codeTable returns the codes of obstacles, and whether they end by themselves.
func codeTable() string {
	var table strings.Builder
	table.WriteString("| Code | Meaning | `run` |\n| --- | --- | --- |\n")
	for _, each := range pivot.Codes() {
		run := ""
		if each.Code.Passes() {
			run = "waits"
		}
		fmt.Fprintf(&table, "| `%s` | %s | %s |\n", each.Code, each.Means, run)
	}
	return table.String()
}
