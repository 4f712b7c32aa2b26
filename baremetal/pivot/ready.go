package pivot

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

const (
	// obstaclesShown is how many obstacles a message names. The others are counted.
	obstaclesShown = 8

	// waveSize is how many hosts are nudged at once, wavePause is the time between two waves: a thousand hosts are told
	// within some two seconds. How many of them Ironic talks to at once is up to the workers of BMO.
	waveSize  = 100
	wavePause = 250 * time.Millisecond
)

// MoveFacts is all that decides whether the objects of a namespace can be moved. About what was not read nothing is
// said.
type MoveFacts struct {
	EndpointFacts

	// Hosts of the namespace, and the Clusters around them.
	Hosts  []*bmov1alpha1.BareMetalHost
	Around []Neighbour

	// Refusals are why the API server refuses to pause hosts, by their names. Untried says that the pause of some hosts
	// was not tried yet.
	Refusals map[string]string
	Untried  bool

	// Clusters, Machines and Metal3Clusters of the namespace. A Metal3Cluster that judges itself is not among them: it
	// closes its gate in the same pass.
	Clusters []*clusterv1.Cluster
	Machines []*clusterv1.Machine
	Infras   []*infrav1.Metal3Cluster

	// PausedClasses and Remediations are the names of the ClusterClasses of the namespace that are paused, and of its
	// Metal3Remediations.
	PausedClasses, Remediations []string

	// MissingLabels are the labels that CRDs lack, such as "baremetalhosts.metal3.io: clusterctl.cluster.x-k8s.io".
	MissingLabels []string

	// Naming are Metal3Clusters, Metal3Machines and their templates, BMCEventSubscriptions and HostClaims, which name
	// Secrets as hosts do. Secrets are those of the namespace, by name.
	Naming  []metav1.Object
	Secrets map[string]*metav1.PartialObjectMetadata

	// Others are other objects that could move, by what messages call them.
	Others map[string]metav1.Object

	// definitions are those of the cluster, by name, and say whether clusterctl looks at their kinds.
	definitions map[string]bool
}

// EndpointFacts decide whether the control plane could take the Ironic endpoint of a cluster. They are empty where
// there is none.
type EndpointFacts struct {
	// Endpoint is how the Ironic endpoint was judged.
	Endpoint outcome.Outcome

	// BareNodes are the nodes of the control plane without the pods of the Ironic endpoint: none of them could take it.
	BareNodes []string

	// NodesUnknown says why the pods were not looked at. Empty if they were.
	NodesUnknown string
}

// AddDefinition enters a CRD and its labels.
func (f *MoveFacts) AddDefinition(name string, labels map[string]string) {
	for _, label := range MissingLabels(name, labels) {
		f.MissingLabels = append(f.MissingLabels, name+": "+label)
	}
	if f.definitions == nil {
		f.definitions = map[string]bool{}
	}
	_, labelled := labels[infrav1.DiscoverLabel]
	// That a label of BMO's is missing is told already.
	f.definitions[name] = labelled || len(MoveLabels(name)) > 0
}

// Refuse enters that the API server refuses to pause a host, and what it says.
func (f *MoveFacts) Refuse(host *bmov1alpha1.BareMetalHost, refusal string) {
	if f.Refusals == nil {
		f.Refusals = map[string]string{}
	}
	f.Refusals[host.Name] = refusal
}

// ToPark says whether a move has to change a host, now or once the host is quiet.
func ToPark(host *bmov1alpha1.BareMetalHost) bool {
	_, left := host.Annotations[infrav1.DeleteForMoveAnnotation]
	return !left && host.DeletionTimestamp.IsZero() && !Parked(host)
}

// AddClass enters a ClusterClass. Clusterctl pauses them by annotation.
func (f *MoveFacts) AddClass(class metav1.Object) {
	if _, paused := class.GetAnnotations()[clusterv1.PausedAnnotation]; paused {
		f.PausedClasses = append(f.PausedClasses, class.GetName())
	}
}

// inOrder sorts what a cache gives in any order: a message that changes without a reason is a write without one.
func (f MoveFacts) inOrder() MoveFacts {
	f.Hosts, f.Clusters, f.Machines = byName(f.Hosts), byName(f.Clusters), byName(f.Machines)
	f.Infras, f.Naming = byName(f.Infras), byName(f.Naming)
	for _, names := range []*[]string{&f.PausedClasses, &f.Remediations, &f.MissingLabels, &f.BareNodes} {
		*names = slices.Sorted(slices.Values(*names))
	}
	return f
}

func byName[T metav1.Object](objects []T) []T {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b T) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
}

// Obstacles names what keeps a move from succeeding, or what it would lose, each with its remedy. None means that a
// move now would go through.
//
//	seen                                             because
//	Cluster or ClusterClass paused                   clusterctl refuses
//	Cluster not provisioned, or without a node       clusterctl refuses
//	control plane that is scaling                    a handover needs its nodes
//	Metal3Machine that lost its host                 the move does not restore it
//	Metal3Cluster without its gate                   clusterctl does not wait until the hosts are parked
//	Ironic endpoint not ours, or no node to take it  the hosts would stay paused, or the address nowhere
//	anything that MayLeave names                     the move would lose it
func Obstacles(facts MoveFacts) []string {
	facts = facts.inOrder()
	lost, waits := MayLeave(facts)
	return slices.Concat(refusals(facts), EndpointObstacles(facts.EndpointFacts), lost, waits)
}

// orphaned says that a host serves a Cluster that is not there. Nobody would take its pause back in the other cluster.
func orphaned(host *bmov1alpha1.BareMetalHost, clusters []*clusterv1.Cluster) []string {
	name := ClusterOf(host)
	there := func(cluster *clusterv1.Cluster) bool { return cluster.Name == name }
	if name == "" || len(clusters) == 0 || slices.ContainsFunc(clusters, there) {
		return nil
	}
	return []string{fmt.Sprintf("host %s serves Cluster %s, which does not exist: delete the %s %s that holds the host, "+
		"or remove its spec.consumerRef", host.Name, name, host.Spec.ConsumerRef.Kind, host.Spec.ConsumerRef.Name)}
}

// EndpointObstacles names what is wrong with the Ironic endpoint of one cluster.
func EndpointObstacles(facts EndpointFacts) []string {
	var found []string
	if !facts.Endpoint.IsDone() {
		found = append(found, "Ironic endpoint: "+facts.Endpoint.Message)
	}
	if facts.NodesUnknown != "" {
		found = append(found, "whether the control plane could take the Ironic endpoint is not known: "+facts.NodesUnknown)
	}
	for _, node := range facts.BareNodes {
		found = append(found, fmt.Sprintf(
			"node %s does not run the pods of the Ironic endpoint: look at them, or roll the control plane out", node))
	}
	return found
}

// hostObstacles says why a host cannot be moved now. A host whose Clusters are paused has to be parked, unless
// clusterctl is deleting it.
func (f *MoveFacts) hostObstacles(host *bmov1alpha1.BareMetalHost) []string {
	var found []string
	_, left := host.Annotations[infrav1.DeleteForMoveAnnotation]
	busy, held, parking := Busy(host), arrivalObstacle(host, f.Around), GoalOf(host, f.Around) == PhaseParked
	refusal := f.Refusals[host.Name]
	switch {
	case left && parking:
		return nil
	case held != "":
		found = append(found, held)
	case left:
		found = append(found, fmt.Sprintf(
			"BareMetalHost %s is a leftover of an earlier move: remove it as docs/pivot.md says", host.Name))
	case refusal != "":
		found = append(found, fmt.Sprintf("BareMetalHost %s cannot be paused, because the API server refuses to change it: "+
			"%s: correct the host", host.Name, refusal))
	case busy != "":
		found = append(found, busyMessage(host, busy))
	case parking && !parkedFor(host, f.Around):
		found = append(found, fmt.Sprintf("host %s is being paused", host.Name))
	}
	if _, blocks := host.Annotations[infrav1.BlockMoveAnnotation]; blocks {
		found = append(found, fmt.Sprintf("host %s carries annotation %s: remove it", host.Name, infrav1.BlockMoveAnnotation))
	}
	return found
}

func busyMessage(host *bmov1alpha1.BareMetalHost, busy string) string {
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	if paused && by == infrav1.HostPausedByProvider && !host.DeletionTimestamp.IsZero() {
		return fmt.Sprintf("host %s is being deleted, and kept as it is while its Cluster is paused: unpause the Cluster to "+
			"have the host wiped and deleted", host.Name)
	}
	if paused && by != infrav1.HostPausedByProvider {
		return fmt.Sprintf("host %s is paused in the middle of %s: remove its annotation %s",
			host.Name, busy, bmov1alpha1.PausedAnnotation)
	}
	return fmt.Sprintf("host %s is %s: wait until it is done", host.Name, busy)
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
