package pivot

import (
	"cmp"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// UnpauseObstacles returns why a user must not end the pause of a host, with the remedies. Left is the departure of the
// namespace. The first row that matches counts.
//
//	paused host                                            obstacle: BMO would
//	is being deleted                                       deprovision it
//	is managed by another management cluster               be the second one that manages it
//	arrived on a leftover, or is a leftover                wipe it
//	lost its Ironic while it was provisioned               write the image again
//	lost its status                                        write the image again
//	its Cluster is paused                                  act on it during a move
//	moved away, by the departure                           be the second one that manages it
//	its Cluster does not exist                             deprovision it when its Machine is deleted
//	its Ironic endpoint is here and not verified           act on it through an unknown Ironic
//	anything else                                          none
//
// A host that waits for the Ironic of another namespace, or for a Cluster, may be unpaused: the user decides that they
// will not arrive.
func UnpauseObstacles(host *bmov1alpha1.BareMetalHost, around []Neighbour, left Departure) []Obstacle {
	blocks := func(code Code, remedy, format string) []Obstacle {
		return []Obstacle{About(hostKind, host).Blocks(code, remedy, format, host.Name)}
	}
	phase := PhaseOf(host, around)
	switch {
	case phase == PhaseLeaving, !host.DeletionTimestamp.IsZero() && phase != PhaseArrivalHeld:
		return blocks(CodeBeingDeleted, "see "+pluginCommand("status", host.Namespace),
			"BareMetalHost %s is being deleted, and BMO would deprovision it")
	case phase == PhaseFenced:
		return blocks(CodeSuperseded, "take over with "+pluginCommand("takeover", fencedBy(host, around))+
			" if that management cluster no longer exists", "another management cluster manages BareMetalHost %s")
	case phase == PhaseArrivalHeld:
		return arrivalObstacles(host, around)
	case phase == PhaseProvisioningHeld:
		return blocks(CodeHostPaused, "wait until the workload cluster answers",
			"the Ironic that was provisioning BareMetalHost %s is gone, and another one would write the image again")
	case LostStatus(host):
		return blocks(CodeHostPaused, "keep the system that runs on it with "+keepCommand(host),
			"BareMetalHost %s lost its status, and BMO would write the image again")
	default:
		return unpauseObstacles(host, around, left, blocks)
	}
}

// fencedBy returns the namespace of the Cluster that fences a host.
func fencedBy(host *bmov1alpha1.BareMetalHost, around []Neighbour) string {
	if i := slices.IndexFunc(around, fencesElsewhere); i >= 0 {
		return around[i].Namespace
	}
	return host.Namespace
}

// unpauseObstacles is UnpauseObstacles for a host that lost nothing.
func unpauseObstacles(host *bmov1alpha1.BareMetalHost, around []Neighbour, left Departure,
	blocks func(code Code, remedy, format string) []Obstacle,
) []Obstacle {
	changed := Apply(Resume, host, around)
	here := slices.ContainsFunc(around, func(other Neighbour) bool {
		return other.ClusterID != "" && other.ClusterID == AwaitsIronic(host, around)
	})
	switch goal := GoalOf(changed, withGates(around)); {
	case goal == PhaseParked:
		return blocks(CodePaused, "unpause the Cluster with "+pluginCommand("unpause", host.Namespace),
			"BareMetalHost %s is paused with its Cluster")
	case (len(local(around)) == 0 || leavesFromHere(host)) && left.HasLeft(host, around):
		return blocks(CodeInTarget, "complete the move with pivot resume; if the other cluster has released the host, "+
			"forget the move with "+pluginCommand("forget", host.Namespace, "--host "+host.Name),
			"BareMetalHost %s moved to another management cluster, which manages it")
	case ClusterOf(host) != "" && len(dependsOn(host, around)) == 0:
		return blocks(CodeClusterMissing, "restore Cluster "+cmp.Or(ClusterOf(host), host.Name)+
			", or remove spec.consumerRef of the host", "BareMetalHost %s serves a Cluster that does not exist here")
	case here, goal == PhaseWaitingForEndpoint && len(local(around)) > 0:
		return blocks(CodeEndpointNotReady, "wait until condition IronicEndpointReady of the Metal3Cluster is true and "+
			"its annotation "+infrav1.BlockMoveAnnotation+" is set again",
			"the Ironic endpoint that serves BareMetalHost %s is not verified")
	default:
		return nil
	}
}

// withGates returns the Clusters with Ungated set to false if they have no Ironic endpoint: CAPM3 sets no block-move,
// so hosts that move to CAPM3 would wait without end.
func withGates(around []Neighbour) []Neighbour {
	around = slices.Clone(around)
	for i := range around {
		around[i].Ungated = around[i].Ungated && around[i].Endpoint
	}
	return around
}

// DiscardObstacles returns why the object of a host must not be removed without an action of BMO. Claimed says that the
// Metal3Machine of the host exists. The first row that matches counts.
//
//	host                                                   obstacle
//	is leaving, and no Cluster is paused for a move        none
//	is not paused                                          BMO manages it
//	is claimed                                             its Machine would lose its host
//	arrived on a leftover, or is a leftover                none
//	lost its status                                        none
//	anything else                                          a user can delete it like any other host
func DiscardObstacles(host *bmov1alpha1.BareMetalHost, around []Neighbour, claimed bool) []Obstacle {
	about := About(hostKind, host)
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	switch phase := PhaseOf(host, around); {
	case phase == PhaseLeaving && GoalOf(host, around) != PhaseParked:
		return nil
	case !paused:
		return []Obstacle{about.Blocks(CodeLeftoverRuns, "delete it with kubectl, which wipes its disks, or detach it before",
			"BareMetalHost %s is not paused, so BMO manages it", host.Name)}
	case claimed:
		return []Obstacle{about.Blocks(CodeInTarget, "keep the host with "+keepCommand(host)+", or delete its Machine before",
			"BareMetalHost %s is claimed by Metal3Machine %s", host.Name, host.Spec.ConsumerRef.Name)}
	case phase == PhaseArrivalHeld, LostStatus(host):
		return nil
	default:
		return []Obstacle{about.Blocks(CodeWrongStage, "see "+pluginCommand("status", host.Namespace),
			"BareMetalHost %s is %s, and is no leftover of an earlier move", host.Name, phase)}
	}
}

// AllowObstacles returns why a host cannot be moved while BMO works on it. The first row that matches counts.
//
//	host                                    obstacle
//	is inspected, prepared, deprovisioned   none
//	is busy with anything else              a move always waits for that
//	is not busy                             a move does not wait for it
func AllowObstacles(host *bmov1alpha1.BareMetalHost) []Obstacle {
	about := About(hostKind, host)
	switch busy := Busy(host); {
	case MovesWhileBusy(host):
		return nil
	case busy != "":
		return []Obstacle{about.Blocks(CodeHostBusy, "wait with pivot preflight --wait",
			"BareMetalHost %s is %s, which a move would interrupt", host.Name, busy)}
	default:
		return []Obstacle{about.Blocks(CodeWrongStage, "move it as it is",
			"BareMetalHost %s is not busy, so a move does not wait for it", host.Name)}
	}
}
