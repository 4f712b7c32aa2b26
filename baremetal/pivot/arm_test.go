package pivot_test

import (
	"testing"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// TestPlanArming tests every combination of the facts.
func TestPlanArming(t *testing.T) {
	table := [][]string{
		// takeover, managed by, armed, holder, what to do
		{"Always", "*", "*", "*", "Keep"},
		{"Manual", "*", "*", "*", "Keep"},
		{"*", "itself", "No", "*", "Arm"},
		{"*", "another", "ByProvider", "Management", "Disarm"},
		{"*", "*", "*", "*", "Keep"},
	}
	for _, facts := range combinations(
		[]string{"", "AfterMove", "Always", "Manual"}, []string{"itself", "another"},
		[]string{"No", "ByProvider", "ByUser", "Refused"},
		[]string{"", "Management", "ControlPlane", "Foreign", "None"},
	) {
		var holder *infrav1.IronicHolder
		if facts[3] != "" {
			holder = &infrav1.IronicHolder{Kind: infrav1.HolderKind(facts[3])}
		}
		got := pivot.PlanArming(infrav1.TakeoverPolicy(facts[0]), facts[1] == "itself", pivot.Armed(facts[2]), holder)
		if want := answer(table, facts); string(got) != want {
			t.Errorf("%v: got %s, want %s", facts, got, want)
		}
	}
}
