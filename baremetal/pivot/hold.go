package pivot

import (
	"cmp"
	"fmt"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// HoldOf returns why a host stays paused while its machine is deleted, and what ends the pause. Empty means that the
// release of the host may end a pause of the provider. The first row that matches counts.
//
//	host                                        goal     stays paused, because BMO
//	not paused                                  any      no
//	paused by anybody, leftover of an earlier   any      would wipe a host that another cluster may manage, or would
//	move or arrived on a leftover                        finish the deletion of the leftover
//	paused by the user                          any      no: the user ends the pause
//	paused by the provider                      Running  no
//	paused by the provider                      other    would act through an Ironic that is not verified
func HoldOf(host *bmov1alpha1.BareMetalHost, around []Neighbour) string {
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	if !paused {
		return ""
	}
	if obstacles := arrivalObstacles(host, around); len(obstacles) > 0 {
		return Enumerate(obstacles)
	}
	goal := GoalOf(host, around)
	if by != infrav1.HostPausedByProvider || goal == PhaseRunning {
		return ""
	}
	return fmt.Sprintf("BareMetalHost %s stays paused: %s", host.Name, endOfPause(host, goal, around))
}

// endOfPause returns what ends the pause of a host with a goal other than Running.
func endOfPause(host *bmov1alpha1.BareMetalHost, goal Phase, around []Neighbour) string {
	switch {
	case goal == PhaseFenced:
		return "another management cluster manages it, as condition IronicEndpointReady of the Metal3Cluster with its " +
			"Ironic says"
	case goal == PhaseParked:
		return "unpause its Cluster"
	case AwaitsIronic(host, around) != "":
		return fmt.Sprintf("move the Metal3Cluster whose spec.ironic.clusterID is %s to this cluster, and wait until its "+
			"condition IronicEndpointReady is true", AwaitsIronic(host, around))
	case len(dependsOn(host, around)) == 0:
		return fmt.Sprintf("Cluster %s does not exist. Restore it, or remove annotation %s of the host to let BMO "+
			"deprovision it with the Ironic that answers", cmp.Or(ClusterOf(host), "of the host"),
			bmov1alpha1.PausedAnnotation)
	default:
		return "wait until condition IronicEndpointReady of the Metal3Cluster is true and its annotation " +
			infrav1.BlockMoveAnnotation + " is set again"
	}
}
