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

// Inventory holds the names of the objects of one Cluster, by kind.
//
// clusterctl updates what it finds in the target, and deletes nothing there. A copy that was interrupted leaves
// objects, owners first. What the user deletes in the source after that is in the target only, and comes alive when
// clusterctl unpauses the Cluster at the end of the next move: a MachineDeployment creates Machines, and a MachineSet
// with one Machine too many deletes any of them. Only the target can tell, and only if it knows what arrives.
type Inventory map[string][]string

// Add enters an object.
func (i Inventory) Add(kind, name string) { i[kind] = append(i[kind], name) }

// String is the value of the annotation. The names are in order.
func (i Inventory) String() string {
	sorted := make(map[string][]string, len(i))
	for kind, names := range i {
		sorted[kind] = slices.Sorted(slices.Values(names))
	}
	// A map of strings has no error.
	content, _ := json.Marshal(sorted)
	return string(content)
}

// InventoryOf reads the inventory that a Metal3Cluster brings. Nil if it brings none.
func InventoryOf(infra metav1.Object) (Inventory, error) {
	text, brought := infra.GetAnnotations()[infrav1.MoveInventoryAnnotation]
	if !brought {
		return nil, nil
	}
	inventory := Inventory{}
	if err := json.Unmarshal([]byte(text), &inventory); err != nil {
		return nil, fmt.Errorf("parsing annotation %s: %w", infrav1.MoveInventoryAnnotation, err)
	}
	return inventory, nil
}

// Arrives says whether a write of a Metal3Cluster is its arrival with clusterctl, so that the inventory has to be
// compared. Before is nil at a creation.
//
//	inventory  epoch            arrives
//	any, and it leaves          no: clusterctl deletes it here
//	none       any              no: the Cluster runs, or the source has an earlier release
//	any        that of before   no: the gate opens, or a client changes an object that has arrived
//	any        another one      yes
func Arrives(before, after metav1.Object) bool {
	_, brings := after.GetAnnotations()[infrav1.MoveInventoryAnnotation]
	return brings && !infrav1.IsLeaving(after) && (before == nil || EpochOf(before) != EpochOf(after))
}

// Revived names the objects that an earlier move has left here and that would harm the Cluster once it runs, with the
// remedy. Empty if there are none.
//
//	left here                    because
//	an object that is deleted    the deletion goes on: the Machine that arrives on it is deleted, and its host wiped
//	an object that does not      it comes alive: a MachineSet with one Machine too many deletes any of them
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
		found = append(found, fmt.Sprintf("an earlier move has left %s here, which the source does not have any more, and "+
			"which would come alive", Enumerate(names)))
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
