package main

import (
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestFailuresHaveWords requires a description for each answer of the tables.
func TestFailuresHaveWords(t *testing.T) {
	for _, failure := range failures() {
		states := []state{failure.left}
		if failure.then != nil {
			states = append(states, *failure.then)
		}
		for _, state := range states {
			told := state.hosts()
			for _, phase := range pivot.Phases() {
				if strings.Contains(told, string(phase)+", ") {
					t.Errorf("%s: there are no words for %s", failure.what, told)
				}
			}
		}
	}
}

// TestFailuresFollowTheTables names what must never change without notice: it is what people rely on at night.
func TestFailuresFollowTheTables(t *testing.T) {
	for what, want := range map[string][3]string{
		"before the move":                  {"run on, unmanaged", "no holder: no node is armed", "run on; management cluster"},
		"never gets quiet":                 {"one that is busy goes on; stay paused", "management cluster", "one that is busy goes on; resumed; management cluster"},
		"killed after that":                {"source: left alone; target: stay paused", "management cluster", "resumed; management cluster"},
		"before the target was unpaused":   {"stay paused", "no holder: no node is armed", "stay paused until the own Ironic answers; a node takes it"},
		"cannot reach the endpoint":        {"stay paused until the own Ironic answers", "management cluster", "resumed; management cluster"},
		"cluster dies after the move":      {"run on", "a node takes it", "registered and adopted by the new Ironic; a node takes it"},
		"node that holds the address dies": {"run on", "a node takes it", "registered and adopted by the new Ironic; a node takes it"},
	} {
		found := 0
		for line := range strings.Lines(failureTable()) {
			cells := strings.Split(strings.Trim(line, "| \n"), " | ")
			if len(cells) != 5 || !strings.Contains(cells[0], what) {
				continue
			}
			found++
			if got := [3]string{cells[1], cells[2], cells[4]}; got != want {
				t.Errorf("%s: got %q, want %q", what, got, want)
			}
		}
		if found != 1 {
			t.Errorf("%d rows say %q", found, what)
		}
	}
}
