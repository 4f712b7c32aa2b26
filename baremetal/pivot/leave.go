package pivot

import (
	"fmt"
	"slices"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// MayLeave names what a move would lose if clusterctl copied the objects of the namespace now, although the Clusters
// are paused. None means that the gate may open. clusterctl has discovered the objects before, so it leaves behind what
// was created since.
//
//	seen                                     because
//	Cluster, Machine or Metal3Machine being  the deletion does not travel: the target would keep the Machine, or deploy
//	deleted                                  the image again
//	Machine without a node                   clusterctl has not discovered it: it refuses to begin where there is one
//	Metal3Remediation                        how far it has come is in its status
//	host not parked                          its status would be lost
func MayLeave(facts MoveFacts) []string {
	facts = facts.inOrder()
	var found []string
	for _, cluster := range facts.Clusters {
		if !cluster.DeletionTimestamp.IsZero() {
			found = append(found, fmt.Sprintf("Cluster %s is being deleted, which a move would forget: wait until it is gone",
				cluster.Name))
		}
	}
	return slices.Concat(found, losses(facts), NotParked(facts))
}

// losses names the Machines, Metal3Machines and Metal3Remediations that a move would lose. The facts are in order.
func losses(facts MoveFacts) []string {
	var found []string
	for _, machine := range facts.Machines {
		switch {
		case !machine.DeletionTimestamp.IsZero():
			found = append(found, fmt.Sprintf(
				"Machine %s is being deleted, which a move would forget: wait until it is gone", machine.Name))
		case !machine.Status.NodeRef.IsDefined():
			found = append(found, fmt.Sprintf("Machine %s has no node: wait for it, or delete it", machine.Name))
		}
	}
	for _, object := range facts.Naming {
		if machine, is := object.(*infrav1.Metal3Machine); is && !machine.DeletionTimestamp.IsZero() {
			found = append(found, fmt.Sprintf(
				"Metal3Machine %s is being deleted, which a move would forget: wait until it is gone", machine.Name))
		}
	}
	for _, remediation := range facts.Remediations {
		found = append(found, fmt.Sprintf("Metal3Remediation %s is running: wait until it is done", remediation))
	}
	return found
}
