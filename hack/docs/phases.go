package main

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// phaseDiagram returns the state machine of a host in a move.
func phaseDiagram() string {
	var diagram strings.Builder
	diagram.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, edge := range pivot.Transitions() {
		from, to := cmp.Or(string(edge.From), "[*]"), cmp.Or(string(edge.To), "[*]")
		fmt.Fprintf(&diagram, "    %s --> %s: %s\n", from, to, edge.Cause)
	}
	diagram.WriteString("```\n")
	return diagram.String()
}
