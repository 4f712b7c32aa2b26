package main

import (
	"strings"
	"testing"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestFailuresHaveWords requires words for each decision of the tables.
func TestFailuresHaveWords(t *testing.T) {
	for _, failure := range failures() {
		states := []state{failure.left}
		if failure.then != nil {
			states = append(states, *failure.then)
		}
		for _, state := range states {
			hosts := state.hosts()
			for _, phase := range pivot.Phases() {
				if strings.Contains(hosts, string(phase)+", ") {
					t.Errorf("%s: no words for %s", failure.what, hosts)
				}
			}
		}
	}
}

// TestFailuresFollowTheTables fails if a decision changes that administrators rely on in an outage.
func TestFailuresFollowTheTables(t *testing.T) {
	for what, want := range map[string][3]string{
		"before the move":                {"run on, unmanaged", "no holder: no node is armed", "run on; management cluster"},
		"stays busy":                     {"a busy host continues; stay paused", "management cluster", "a busy host continues; resumed; management cluster"},
		"killed after that":              {"source: left alone; target: stay paused", "management cluster", "resumed; management cluster"},
		"before the target was unpaused": {"stay paused", "no holder: no node is armed", "stay paused until the Ironic of the cluster answers; a node claims the VIP"},
		"cannot reach the endpoint":      {"stay paused until the Ironic of the cluster answers", "management cluster", "resumed; management cluster"},
		"cluster dies after the move":    {"run on", "a node claims the VIP", "registered and adopted by the new Ironic; a node claims the VIP"},
		"node that holds the VIP dies":   {"run on", "a node claims the VIP", "registered and adopted by the new Ironic; a node claims the VIP"},
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
