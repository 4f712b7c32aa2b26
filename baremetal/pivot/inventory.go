package pivot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Inventory is the names of the objects of one Cluster, by kind.
//
// clusterctl updates existing objects in the target, and deletes none there. An interrupted copy leaves objects, owners
// first. An object that a user deletes in the source after that exists in the target only. When clusterctl unpauses the
// Cluster at the end of the next move, a MachineDeployment creates Machines, and a MachineSet with too many Machines
// deletes any of them. The target detects such objects by the inventory of the source.
type Inventory map[string][]string

// Add adds an object.
func (i Inventory) Add(kind, name string) { i[kind] = append(i[kind], name) }

// String returns the value of the annotation, with sorted names. A long one is compressed.
func (i Inventory) String() string {
	sorted := make(map[string][]string, len(i))
	for kind, names := range i {
		sorted[kind] = slices.Sorted(slices.Values(names))
	}
	// Marshalling a map of strings returns no error.
	content, _ := json.Marshal(sorted)
	return pack(content)
}

// InventoryOf returns the inventory of a Metal3Cluster. Nil if it has none.
func InventoryOf(infra metav1.Object) (Inventory, error) {
	text, brought := infra.GetAnnotations()[infrav1.MoveInventoryAnnotation]
	if !brought {
		return nil, nil
	}
	inventory := Inventory{}
	content, err := unpack(text)
	if err == nil {
		err = json.Unmarshal(content, &inventory)
	}
	if err != nil {
		return nil, fmt.Errorf("parsing annotation %s: %w", infrav1.MoveInventoryAnnotation, err)
	}
	return inventory, nil
}

// Arrives returns true if a write of a Metal3Cluster is its arrival with clusterctl, so that the inventory must be
// compared. Before is nil for a creation.
//
//	inventory  epoch            arrives
//	any        deleted by move  no: clusterctl deletes it here
//	none       any              no: the Cluster runs, or the source has an earlier release
//	any        as before        no: block-move is removed, or a client changes an object that has arrived
//	any        another one      yes
func Arrives(before, after metav1.Object) bool {
	_, brings := after.GetAnnotations()[infrav1.MoveInventoryAnnotation]
	return brings && !infrav1.IsLeaving(after) && (before == nil || EpochOf(before) != EpochOf(after))
}

// Revived returns the leftovers of an earlier move that would harm the Cluster when it runs, with the remedy. Empty if
// there are none.
//
//	left here                    because
//	an object being deleted      the deletion continues: the Machine that arrives is deleted, and its host wiped
//	an object that does not      controllers reconcile it: a MachineSet with too many Machines deletes any of them
//	arrive
func Revived(namespace string, arriving, here, deleted Inventory) string {
	var names, halves []string
	for _, kind := range slices.Sorted(maps.Keys(here)) {
		for _, name := range slices.Sorted(slices.Values(here[kind])) {
			isHalf := slices.Contains(deleted[kind], name)
			switch {
			case isHalf:
				halves = append(halves, kind+" "+name)
			case !slices.Contains(arriving[kind], name):
				names = append(names, kind+" "+name)
			}
		}
	}
	var found []string
	if len(names) > 0 {
		found = append(found, fmt.Sprintf("an earlier move has left %s here, which the source no longer has, and which "+
			"controllers would reconcile after this move", Enumerate(names)))
	}
	if len(halves) > 0 {
		found = append(found, fmt.Sprintf("an earlier move has left %s here, which is being deleted, and would be deleted "+
			"after this move", Enumerate(halves)))
	}
	if len(found) == 0 {
		return ""
	}
	return fmt.Sprintf("%s: remove them here with %s, and move again", strings.Join(found, "; "),
		pluginCommand("clean", namespace, "--target", "--to-kubeconfig target.kubeconfig"))
}
