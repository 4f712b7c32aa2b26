package pivot

import (
	"fmt"
	"strconv"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Epoch counts the moves of a cluster. It is even while the Cluster runs, and odd while a move is under way, in the
// source and in the target. An epoch only grows, so a copy that an earlier move has left has a lower one.
//
//	                        source             target
//	Cluster runs            4
//	clusterctl pauses it    5, hosts 5
//	clusterctl copies       5, hosts 5         5, hosts 5
//	clusterctl unpauses it                     6
//	the move is given up    6                  5: a leftover
//	the next move           7, hosts 7         7, hosts 7; a host that is not copied again has 5
type Epoch int64

// EpochOf is the epoch of a Metal3Cluster or of a host. It is 0 without the annotation, and if a user has written
// anything else than a whole number.
func EpochOf(object metav1.Object) Epoch { return epochIn(object, infrav1.MoveEpochAnnotation) }

// ArrivalOfCluster is the epoch of the last move of a Metal3Cluster whose gate was open when its Cluster was unpaused.
func ArrivalOfCluster(infra metav1.Object) Epoch {
	return epochIn(infra, infrav1.ArrivalEpochAnnotation)
}

func epochIn(object metav1.Object, annotation string) Epoch {
	return parseEpoch(object.GetAnnotations()[annotation])
}

// parseEpoch reads an epoch. 0 if it is none.
func parseEpoch(text string) Epoch {
	epoch, err := strconv.ParseInt(text, 10, 64)
	if err != nil || epoch < 0 {
		return 0
	}
	return Epoch(epoch)
}

// IsMove returns true for the epoch of a move that is under way.
func (e Epoch) IsMove() bool { return e%2 == 1 }

// String is the value of the annotation.
func (e Epoch) String() string { return strconv.FormatInt(int64(e), 10) }

// Depart returns the epoch of a Metal3Cluster whose Cluster is paused, and whose gate is closed. All Clusters of a
// namespace move together, and a free host has one epoch for all of them, so they get the same one.
//
//	own   highest of the namespace  epoch
//	odd   any                       as it is: the move has begun
//	even  odd, and higher           the highest: the move has begun
//	even  even                      one more than the highest
func Depart(own Epoch, around []Neighbour) Epoch {
	if own.IsMove() {
		return own
	}
	highest := own
	for _, other := range local(around) {
		highest = max(highest, other.Epoch)
	}
	if !highest.IsMove() {
		highest++
	}
	return highest
}

// Unpaused returns the epoch of a Metal3Cluster whose Cluster runs.
func (e Epoch) Unpaused() Epoch {
	if e.IsMove() {
		return e + 1
	}
	return e
}

// StampFor is the epoch that a host has to have before it may be copied. 0 if none is known: no Cluster that decides
// about the host waits at a closed gate.
func StampFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) Epoch {
	var stamp Epoch
	for _, other := range decidingFor(host, around) {
		if other.Paused && !other.Ungated && other.Epoch.IsMove() {
			stamp = max(stamp, other.Epoch)
		}
	}
	return stamp
}

// parkedFor says whether a host is parked for the move that is under way.
func parkedFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	stamp := StampFor(host, around)
	return Parked(host) && (stamp == 0 || EpochOf(host) == stamp &&
		host.Annotations[infrav1.IronicClusterIDAnnotation] == ironicOf(host, around))
}

// Abandoned says whether a paused host was left by an earlier move, and did not arrive with the last one. The first row
// that fits counts. Without an epoch, nothing is known: the host comes from an earlier release.
//
//	host                                     abandoned
//	is not paused                            no: BMO acts on it already
//	has no epoch                             no
//	has a lower epoch than the last arrival  yes: the gate opens when all hosts have the epoch of the move
//	anything else                            no
func Abandoned(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	stamp := EpochOf(host)
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; !paused || stamp == 0 {
		return false
	}
	for _, other := range decidingFor(host, around) {
		if stamp < other.Arrival {
			return true
		}
	}
	return false
}

// abandonedObstacle says why an abandoned host stays paused, and what to do.
func abandonedObstacle(host *bmov1alpha1.BareMetalHost) Obstacle {
	remedy := fmt.Sprintf("keep it with %s, or remove it with %s", keepCommand(host), discardCommand(host))
	return About(hostKind, host).Blocks(CodeLeftover, remedy, "BareMetalHost %s was left by an earlier move, is not in "+
		"the last one, and stays paused, because it was deleted in the source since", host.Name)
}

// decidingFor are the Clusters that decide about a host, and all of the namespace if its own is not there.
func decidingFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) []Neighbour {
	if deciding := dependsOn(host, around); len(deciding) > 0 {
		return deciding
	}
	return local(around)
}
