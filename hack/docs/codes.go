package main

import (
	"fmt"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// codeTable lists the codes of obstacles.
func codeTable() string {
	var table strings.Builder
	table.WriteString("| Code | Meaning |\n| --- | --- |\n")
	for _, each := range pivot.Codes() {
		fmt.Fprintf(&table, "| `%s` | %s |\n", each.Code, each.Means)
	}
	return table.String()
}
