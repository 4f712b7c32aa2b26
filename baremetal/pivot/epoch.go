package pivot

import (
	"fmt"
	"slices"
	"strconv"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Epoch counts the moves of a cluster. It is even while the Cluster runs, and odd during a move, in the source and in
// the target. An epoch only grows, so a leftover of an earlier move has a lower epoch.
//
//	                        source             target
//	Cluster runs            4
//	clusterctl pauses it    5, hosts 5
//	clusterctl copies       5, hosts 5         5, hosts 5
//	clusterctl unpauses it                     6
//	the move is aborted     6                  5: a leftover
//	the next move           7, hosts 7         7, hosts 7; a host that is not copied again has 5
type Epoch int64

// EpochOf returns the epoch of a Metal3Cluster or of a host. It is 0 if the annotation is missing or not a whole
// number.
func EpochOf(object metav1.Object) Epoch { return epochIn(object, infrav1.MoveEpochAnnotation) }

// ArrivalOfCluster returns the epoch of the last move of a Metal3Cluster without block-move when its Cluster was
// unpaused.
func ArrivalOfCluster(infra metav1.Object) Epoch {
	return epochIn(infra, infrav1.ArrivalEpochAnnotation)
}

func epochIn(object metav1.Object, annotation string) Epoch {
	return parseEpoch(object.GetAnnotations()[annotation])
}

// epochBits is the size of the largest epoch. Anyone may write one in the workload cluster, and a larger one would
// overflow after the next moves.
const epochBits = 48

// parseEpoch parses an epoch. It returns 0 for an invalid one. Most objects have none, and an error costs memory.
func parseEpoch(text string) Epoch {
	if text == "" {
		return 0
	}
	epoch, err := strconv.ParseUint(text, 10, epochBits)
	if err != nil {
		return 0
	}
	return Epoch(epoch)
}

// IsMove returns true for the epoch of a move that is in progress.
func (e Epoch) IsMove() bool { return e%2 == 1 }

// String returns the value of the annotation.
func (e Epoch) String() string { return strconv.FormatInt(int64(e), 10) }

// Depart returns the epoch of a Metal3Cluster with block-move whose Cluster is paused. All Clusters of a namespace move
// together, and a free host has one epoch for all of them, so they get the same epoch.
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

// StampFor returns the epoch that a host must have before clusterctl may copy it. It is 0 if no Cluster that decides
// about the host has block-move.
func StampFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) Epoch {
	var stamp Epoch
	for _, other := range decidingFor(host, around) {
		if waitsAtGate(other) && other.Epoch.IsMove() {
			stamp = max(stamp, other.Epoch)
		}
	}
	return stamp
}

// parkedFor returns true if a host is parked for the move that is in progress.
func parkedFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	stamp := StampFor(host, around)
	return Parked(host) && (stamp == 0 || EpochOf(host) == stamp &&
		host.Annotations[infrav1.IronicClusterIDAnnotation] == ironicOf(host, around))
}

// Abandoned returns true if a paused host is a leftover of an earlier move, and did not arrive with the last one. The
// first row that matches counts. A host without an epoch comes from an earlier release.
//
//	host                                     abandoned
//	is not paused                            no: BMO acts on it already
//	has no epoch                             no
//	has the epoch of the last arrival of a   no: it arrives, or has arrived. Epochs of Clusters of different origins say
//	Cluster, or of a Cluster that arrives    nothing about each other
//	has a lower epoch than the last arrival  yes: block-move is removed when all hosts have the epoch of the move
//	anything else                            no
func Abandoned(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	stamp := EpochOf(host)
	if _, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; !paused || stamp == 0 {
		return false
	}
	isOlder := false
	for _, other := range decidingFor(host, around) {
		if stamp == other.Arrival || moves(other, stamp) {
			return false
		}
		isOlder = isOlder || stamp < other.Arrival
	}
	return isOlder
}

// moves returns true for a paused Cluster that moves with an epoch.
func moves(other Neighbour, epoch Epoch) bool {
	return other.Paused && other.Epoch.IsMove() && other.Epoch == epoch
}

// awaitsArrival returns true for a host that arrived before the Clusters that it moves with. The first row that matches
// counts.
//
//	host                           waits
//	is not paused                  no: BMO acts on it already
//	was recorded from this object  no: the move began here, and the departure decides
//	its move has ended             no
//	anything else                  yes
func awaitsArrival(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	return paused && host.Annotations[infrav1.StatusOriginAnnotation] != string(host.UID) && !moveHasEnded(host, around)
}

// moveHasEnded returns false if the epoch of a host shows that its move has not ended here. When a Cluster is unpaused,
// its epoch becomes higher than that of the move. The first row that matches counts.
//
//	host                                               its move has ended
//	serves a Cluster                                   yes: that Cluster decides
//	has no epoch of a move                             yes: CAPM3 has moved it, or no Cluster moved with it
//	has a lower epoch than a Cluster of its namespace  yes
//	anything else                                      no
func moveHasEnded(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	if ClusterOf(host) != "" {
		return true
	}
	stamp := EpochOf(host)
	isOver := func(other Neighbour) bool { return other.Epoch > stamp }
	return !stamp.IsMove() || slices.ContainsFunc(around, isOver)
}

// abandonedObstacle returns why an abandoned host stays paused, with the remedy.
func abandonedObstacle(host *bmov1alpha1.BareMetalHost) Obstacle {
	remedy := fmt.Sprintf("keep it with %s, or remove it with %s", keepCommand(host), discardCommand(host))
	return About(hostKind, host).Blocks(CodeLeftover, remedy, "BareMetalHost %s is a leftover of an earlier move, is not "+
		"in the last one, and stays paused, because it was deleted in the source since", host.Name)
}

// decidingFor returns the Clusters that decide about a host, and all of the namespace if its own does not exist.
func decidingFor(host *bmov1alpha1.BareMetalHost, around []Neighbour) []Neighbour {
	if deciding := dependsOn(host, around); len(deciding) > 0 {
		return deciding
	}
	return local(around)
}
