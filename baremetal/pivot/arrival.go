package pivot

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Arrival says whether the status annotation of a host came from another cluster, and whether the object accepts it.
type Arrival string

// Values of Arrival.
const (
	// NotArrived means that the annotation is missing, or was recorded from this object.
	NotArrived Arrival = "NotArrived"

	// ArrivalTaken means that the object has the arrived status, or has none, so that the Baremetal Operator (BMO)
	// restores it.
	ArrivalTaken Arrival = "Taken"

	// ArrivalPending means that the object is a leftover of an earlier move, with an older status. BMO ignores the
	// annotation, and deprovisions the host if the old image differs from the spec.
	ArrivalPending Arrival = "Pending"

	// ArrivalDeleted means that the leftover was being deleted when the status arrived. BMO would deprovision the host.
	ArrivalDeleted Arrival = "Deleted"

	// ArrivalOutdated means that the object has a newer status than the one that arrived: BMO acted on the leftover.
	ArrivalOutdated Arrival = "Outdated"
)

// ArrivalOf returns the arrival of a host. The annotation has the UID of the object that it was recorded from. An
// annotation without a UID is foreign if it is newer than the status. The first row that matches counts.
//
//	annotation           deletionTimestamp  status of the object                arrival
//	missing, unreadable  any                any                                 NotArrived
//	own                  any                not older                           NotArrived
//	foreign              set                any                                 ArrivalDeleted
//	foreign              none               none, or the same                   ArrivalTaken
//	foreign              none               older, or of the same time but      ArrivalPending
//	                                        different
//	foreign              none               newer                               ArrivalOutdated
func ArrivalOf(host *bmov1alpha1.BareMetalHost) Arrival {
	brought := host.Annotations[bmov1alpha1.StatusAnnotation]
	if brought == "" {
		return NotArrived
	}
	var arrived bmov1alpha1.BareMetalHostStatus
	if json.Unmarshal([]byte(brought), &arrived) != nil {
		return NotArrived
	}
	own, none := host.Status.LastUpdated, host.Status.LastUpdated.IsZero()
	foreign := OriginUID(host) != ""
	newer := !none && own.Before(arrived.LastUpdated)
	switch {
	case !foreign && !newer:
		return NotArrived
	case !host.DeletionTimestamp.IsZero():
		return ArrivalDeleted
	case none, recorded(host):
		return ArrivalTaken
	case arrived.LastUpdated.Before(own):
		return ArrivalOutdated
	default:
		return ArrivalPending
	}
}

// OriginUID returns the UID that an arrived host had in the source cluster. Empty if the host did not arrive. A Node
// keeps this UID in its label metal3.io/uuid.
func OriginUID(host *bmov1alpha1.BareMetalHost) string {
	if origin := host.Annotations[infrav1.StatusOriginAnnotation]; origin != string(host.UID) {
		return origin
	}
	return ""
}

// ArrivedDeleted returns true if a paused host was being deleted when it arrived: BMO would deprovision it. The first
// row that matches counts.
//
//	host                                              was being deleted
//	is not paused, is not being deleted, or is being  no
//	deleted by a move
//	has the arrival ArrivalDeleted                    yes
//	has the epoch of the last arrival of one of its   yes: it came back onto its own leftover, and BMO has not restored
//	Clusters                                          the status in between, so the annotation is its own
//	anything else                                     no: a user deletes it
func ArrivedDeleted(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	_, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	if !paused || host.DeletionTimestamp.IsZero() || infrav1.IsLeaving(host) {
		return false
	}
	stamp := EpochOf(host)
	arrivedWith := func(other Neighbour) bool { return stamp.IsMove() && other.Arrival == stamp }
	return ArrivalOf(host) == ArrivalDeleted || slices.ContainsFunc(decidingFor(host, around), arrivedWith)
}

// ArrivedStatus returns the status that arrived in an annotation, with the hardware details of the current status: the
// annotation has none.
func ArrivedStatus(annotation string, replaced map[string]any) (map[string]any, error) {
	var arrived map[string]any
	if err := json.Unmarshal([]byte(annotation), &arrived); err != nil {
		return nil, fmt.Errorf("parsing annotation %s: %w", bmov1alpha1.StatusAnnotation, err)
	}
	status := maps.Clone(arrived)
	if hardware, known := replaced[hardwareKey]; known {
		status[hardwareKey] = hardware
	}
	return status, nil
}

// arrivalObstacles returns why a host that arrived stays paused, with the remedy. It is empty for other hosts.
func arrivalObstacles(host *bmov1alpha1.BareMetalHost, around []Neighbour) []Obstacle {
	blocks := func(remedy, format string) []Obstacle {
		return []Obstacle{About(hostKind, host).Blocks(CodeLeftover, remedy, format, host.Name)}
	}
	arrival := ArrivalOf(host)
	switch {
	case Abandoned(host, around):
		return []Obstacle{abandonedObstacle(host)}
	case ArrivedDeleted(host, around):
		return blocks(keepCommand(host), "BareMetalHost %s was being deleted when it arrived from "+
			"another cluster, and stays paused, because BMO would deprovision it")
	case arrival == ArrivalPending:
		return blocks("wait for the manager",
			"BareMetalHost %s is a leftover of an earlier move and has not restored the status that arrived")
	case arrival == ArrivalOutdated:
		remedy := "find out which status is correct; " + keepCommand(host) + " keeps the newer status"
		return blocks(remedy,
			"BareMetalHost %s has a newer status than the one that arrived from another cluster, and stays paused")
	default:
		return nil
	}
}

// keepCommand returns the command that resumes a paused host, and keeps the system that runs on it.
func keepCommand(host *bmov1alpha1.BareMetalHost) string {
	return pluginCommand("keep", host.Namespace, "--host "+host.Name)
}

// discardCommand returns the command that removes a paused host without an action of BMO.
func discardCommand(host *bmov1alpha1.BareMetalHost) string {
	return pluginCommand("discard", host.Namespace, "--host "+host.Name)
}

// cleanCommand returns the command that removes the leftovers of an earlier move in the target.
func cleanCommand(host *bmov1alpha1.BareMetalHost) string {
	return pluginCommand("clean", host.Namespace, "--target", "--to-kubeconfig target.kubeconfig")
}

// pluginCommand returns a command of the plugin for a namespace, as messages quote it.
func pluginCommand(name, namespace string, flags ...string) string {
	words := append([]string{"clusterctl metal3 pivot", name, "--namespace", namespace}, flags...)
	return "`" + strings.Join(words, " ") + "`"
}

// Leftover returns why a host in the target of a move conflicts with the host that arrives, with the remedy. It is
// empty for a host without a status, which gets the status that arrives.
func Leftover(host *bmov1alpha1.BareMetalHost) []Obstacle {
	about := About(hostKind, host)
	switch {
	case !host.DeletionTimestamp.IsZero():
		return []Obstacle{about.Blocks(CodeLeftover,
			"remove it with "+cleanCommand(host)+", or it stays paused after the move",
			"BareMetalHost %s is there already, and is being deleted", host.Name)}
	case !host.Status.LastUpdated.IsZero():
		return []Obstacle{about.Blocks(CodeLeftover, "remove it with "+cleanCommand(host),
			"BareMetalHost %s is there already, with an older status", host.Name)}
	default:
		return nil
	}
}
