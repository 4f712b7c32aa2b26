package pivot_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/pivot"
)

// bringing is a Metal3Cluster with annotations. Empty values are omitted.
func bringing(epoch, inventory string) *infrav1.Metal3Cluster {
	infra := &infrav1.Metal3Cluster{}
	infra.Annotations = map[string]string{}
	if epoch != "" {
		infra.Annotations[infrav1.MoveEpochAnnotation] = epoch
	}
	if inventory != "" {
		infra.Annotations[infrav1.MoveInventoryAnnotation] = inventory
	}
	return infra
}

func TestArrives(t *testing.T) {
	for name, tc := range map[string]struct {
		reason        string
		before, after *infrav1.Metal3Cluster
		want          bool
	}{
		"Created by a user":     {"it brings nothing", nil, bringing("", ""), false},
		"Created by clusterctl": {"nothing is there yet", nil, bringing("1", "{}"), true},
		"Updated by clusterctl": {"a half copy is there", bringing("1", "{}"), bringing("3", "{}"), true},
		"Left by a release without epochs": {
			"the copy there has none", bringing("", ""), bringing("1", "{}"), true,
		},
		"Opened":     {"the gate writes the inventory in the source", bringing("1", ""), bringing("1", "{}"), false},
		"Changed":    {"a user changes what has arrived", bringing("1", "{}"), bringing("1", "{}"), false},
		"Unpaused":   {"the manager removes the inventory", bringing("1", "{}"), bringing("2", ""), false},
		"Older here": {"the source has a release without inventories", bringing("2", ""), bringing("3", ""), false},
	} {
		t.Run(name, func(t *testing.T) {
			// A nil pointer in an interface is not nil.
			got := tc.before == nil && pivot.Arrives(nil, tc.after) || tc.before != nil && pivot.Arrives(tc.before, tc.after)
			if got != tc.want {
				t.Errorf("%s: got %v", tc.reason, got)
			}
		})
	}
}

func TestInventory(t *testing.T) {
	inventory := pivot.Inventory{}
	inventory.Add("Machine", "b")
	inventory.Add("Machine", "a")
	inventory.Add("MachineSet", "s")
	text := inventory.String()
	if want := `{"Machine":["a","b"],"MachineSet":["s"]}`; text != want {
		t.Errorf("got %s, want %s", text, want)
	}
	read, err := pivot.InventoryOf(bringing("1", text))
	if diff := cmp.Diff(pivot.Inventory{"Machine": {"a", "b"}, "MachineSet": {"s"}}, read); diff != "" || err != nil {
		t.Errorf("%v, -want +got:\n%s", err, diff)
	}
	if read, err := pivot.InventoryOf(bringing("1", "")); read != nil || err != nil {
		t.Errorf("got %v, %v", read, err)
	}
	if _, err := pivot.InventoryOf(bringing("1", "[")); err == nil ||
		!strings.Contains(err.Error(), infrav1.MoveInventoryAnnotation) {
		t.Errorf("got %v", err)
	}
}

// TestLongInventory keeps the inventory of 5,000 machines below the 256 KiB of all annotations of an object.
func TestLongInventory(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	inventory := pivot.Inventory{}
	for range 5000 {
		name := fmt.Sprintf("production-frankfurt-workers-%05x-%05x", random.IntN(16), random.IntN(1<<20))
		inventory.Add("Machine", name)
		inventory.Add("Metal3Machine", name)
	}
	text := inventory.String()
	if len(text) > 128<<10 {
		t.Errorf("the annotation has %d bytes", len(text))
	}
	got, err := pivot.InventoryOf(bringing("1", text))
	if err != nil || got.String() != text {
		t.Errorf("got %d Machines, %v", len(got["Machine"]), err)
	}
	for _, spoiled := range []string{text[:len(text)/2], "gzip:", "gzip:e30=", "gzip:*"} {
		if _, err := pivot.InventoryOf(bringing("1", spoiled)); err == nil {
			t.Errorf("an inventory of %d bytes that is spoiled was read", len(spoiled))
		}
	}
}

func TestRevived(t *testing.T) {
	arriving := pivot.Inventory{"Machine": {"kept"}, "MachineSet": {"set"}}
	for name, tc := range map[string]struct {
		reason string
		here   pivot.Inventory
		half   pivot.Inventory
		want   []string
	}{
		"Nothing": {reason: "a first move"},
		"Same": {
			reason: "the earlier copy is updated", here: pivot.Inventory{"Machine": {"kept"}, "MachineSet": {"set"}},
		},
		"Machine": {
			reason: "it was deleted in the source", here: pivot.Inventory{"Machine": {"gone", "kept"}},
			want: []string{"Machine gone"},
		},
		"Same name": {
			reason: "a name counts for its kind", here: pivot.Inventory{"MachineSet": {"kept"}}, want: []string{"MachineSet kept"},
		},
		"Kind": {
			reason: "no object of this kind arrives", here: pivot.Inventory{"MachineDeployment": {"d"}},
			want: []string{"MachineDeployment d"},
		},
		"Half": {
			reason: "it arrives on an object that is being deleted", here: pivot.Inventory{"Machine": {"gone", "kept"}},
			half: pivot.Inventory{"Machine": {"kept"}}, want: []string{"Machine gone", "Machine kept"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := pivot.Revived("metal3", arriving, tc.here, tc.half)
			if (got == "") != (len(tc.want) == 0) {
				t.Fatalf("%s: got %q", tc.reason, got)
			}
			for _, want := range tc.want {
				const remedy = "`clusterctl metal3 pivot clean --namespace metal3 --target --to-kubeconfig target.kubeconfig`"
				if !strings.Contains(got, want) || !strings.Contains(got, remedy) {
					t.Errorf("%s: got %q, want %q and %q", tc.reason, got, want, remedy)
				}
			}
		})
	}
}
