package pivot

import (
	"fmt"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

const (
	// obstaclesShown is how many obstacles a message names. The others are counted.
	obstaclesShown = 8

	// waveSize is how many hosts are nudged at once, wavePause is the time between two waves. Each of them makes Ironic
	// talk to a BMC.
	waveSize  = 100
	wavePause = 2 * time.Second
)

// MoveFacts is all that decides whether the objects of a namespace can be moved.
type MoveFacts struct {
	// Hosts of the namespace, and the Clusters around them.
	Hosts  []*bmov1alpha1.BareMetalHost
	Around []Neighbour

	// MachinesWithoutNode are the names of the Machines of the namespace that have no node: clusterctl move refuses to
	// begin then.
	MachinesWithoutNode []string

	// Remediations are the names of the Metal3Remediations of the namespace.
	Remediations []string

	// MissingLabels are the labels that CRDs lack, such as "baremetalhosts.metal3.io: clusterctl.cluster.x-k8s.io".
	MissingLabels []string

	// Endpoint is how the Ironic endpoint was judged. Done where there is none.
	Endpoint outcome.Outcome

	// BareNodes are the nodes of the control plane without the pods of the Ironic endpoint: none of them could take it.
	BareNodes []string

	// NodesUnknown says why the pods were not looked at. Empty if they were, or if there is no endpoint.
	NodesUnknown string
}

// AddMachine enters a Machine of the namespace.
func (f *MoveFacts) AddMachine(machine *clusterv1.Machine) {
	if !machine.Status.NodeRef.IsDefined() {
		f.MachinesWithoutNode = append(f.MachinesWithoutNode, machine.Name)
	}
}

// AddDefinition enters a CRD and its labels.
func (f *MoveFacts) AddDefinition(name string, labels map[string]string) {
	for _, label := range MissingLabels(name, labels) {
		f.MissingLabels = append(f.MissingLabels, name+": "+label)
	}
}

// Obstacles names what keeps a move from succeeding, or what it would lose, each with its remedy. None means that a
// move now would go through.
func Obstacles(facts MoveFacts) []string {
	var found []string
	add := func(format string, values ...any) { found = append(found, fmt.Sprintf(format, values...)) }
	if !facts.Endpoint.IsDone() {
		add("Ironic endpoint: %s", facts.Endpoint.Message)
	}
	if facts.NodesUnknown != "" {
		add("whether the control plane could take the Ironic endpoint is not known: %s", facts.NodesUnknown)
	}
	for _, node := range facts.BareNodes {
		add("node %s does not run the pods of the Ironic endpoint: look at them, or roll the control plane out", node)
	}
	for _, label := range facts.MissingLabels {
		add("CustomResourceDefinition %s is missing: set this label, or run the manager with --keep-move-labels", label)
	}
	for _, machine := range facts.MachinesWithoutNode {
		add("Machine %s has no node: wait for it, or delete it", machine)
	}
	for _, remediation := range facts.Remediations {
		add("Metal3Remediation %s is running: wait until it is done", remediation)
	}
	for _, host := range facts.Hosts {
		found = append(found, hostObstacles(host)...)
	}
	return found
}

func hostObstacles(host *bmov1alpha1.BareMetalHost) []string {
	var found []string
	if busy := Busy(host); busy != "" {
		found = append(found, busyMessage(host, busy))
	}
	if _, blocks := host.Annotations[infrav1.BlockMoveAnnotation]; blocks {
		found = append(found, fmt.Sprintf("host %s carries annotation %s: remove it", host.Name, infrav1.BlockMoveAnnotation))
	}
	for _, owner := range host.OwnerReferences {
		group, _, _ := strings.Cut(owner.APIVersion, "/")
		if !strings.HasSuffix(group, "cluster.x-k8s.io") && !strings.HasSuffix(group, "metal3.io") {
			found = append(found, fmt.Sprintf("host %s is owned by %s %s, which does not move: remove the owner reference",
				host.Name, owner.Kind, owner.Name))
		}
	}
	return found
}

func busyMessage(host *bmov1alpha1.BareMetalHost, busy string) string {
	if by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]; paused && by != infrav1.HostPausedByProvider {
		return fmt.Sprintf("host %s is paused in the middle of %s: remove its annotation %s",
			host.Name, busy, bmov1alpha1.PausedAnnotation)
	}
	return fmt.Sprintf("host %s is %s: wait until it is done", host.Name, busy)
}

// NotParked names the hosts that a move has to wait for, and why. None means that it may go on.
func NotParked(facts MoveFacts) []string {
	var waits []string
	for _, host := range facts.Hosts {
		_, moving := host.Annotations[infrav1.DeleteForMoveAnnotation]
		if moving || WishFor(host, facts.Around) != Park {
			continue
		}
		if busy := Busy(host); busy != "" {
			waits = append(waits, busyMessage(host, busy))
		} else if !Parked(host) {
			waits = append(waits, fmt.Sprintf("host %s is being paused", host.Name))
		}
	}
	return waits
}

// Enumerate joins obstacles to one line, which does not grow with the number of hosts.
func Enumerate(obstacles []string) string {
	if len(obstacles) <= obstaclesShown {
		return strings.Join(obstacles, "; ")
	}
	return fmt.Sprintf("%s; and %d more", strings.Join(obstacles[:obstaclesShown], "; "), len(obstacles)-obstaclesShown)
}

// WaveDelay is how long after a change of the holder the host at this place of the list is nudged.
func WaveDelay(place int) time.Duration { return time.Duration(place/waveSize) * wavePause }
