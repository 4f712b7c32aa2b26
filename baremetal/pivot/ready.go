package pivot

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/hostdata"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

const (
	// waveSize is the number of hosts that get a Nudge at the same time, and wavePause the time between two waves. A
	// thousand hosts take some two seconds. The workers of BMO limit the requests to Ironic.
	waveSize  = 100
	wavePause = 250 * time.Millisecond
)

// MoveFacts are the facts that decide whether the objects of a namespace can be moved. Facts that were not read create
// no obstacle.
type MoveFacts struct {
	EndpointFacts

	// Namespace is the namespace to move.
	Namespace string

	// Hosts of the namespace, and the Clusters that decide about them.
	Hosts  []*bmov1alpha1.BareMetalHost
	Around []Neighbour

	// Refusals are the errors of the API server for the pause of hosts, by host name. Untried says that the manager has
	// not tried the pause of some hosts yet.
	Refusals map[string]string
	Untried  bool

	// Clusters, Machines and Metal3Clusters of the namespace. The Metal3Cluster that is being reconciled is omitted:
	// the same pass restores its block-move.
	Clusters []*clusterv1.Cluster
	Machines []*clusterv1.Machine
	Infras   []*infrav1.Metal3Cluster

	// Deleting are the owners of Machines that are being deleted. AddOwner adds them.
	Deleting []Obstacle

	// PausedSince is the known time of the first pause of a Cluster while clusterctl waits for block-move. Zero otherwise.
	PausedSince time.Time

	// PausedClasses and Remediations are the names of the ClusterClasses of the namespace that are paused, and of its
	// Metal3Remediations that have begun.
	PausedClasses, Remediations []string

	// OpenPools are the names of the IPPools with allocated addresses and without spec.clusterName.
	OpenPools []string

	// MissingLabels are the labels that CRDs lack, such as "baremetalhosts.metal3.io: clusterctl.cluster.x-k8s.io".
	MissingLabels []string

	// Naming are Metal3Clusters, Metal3Machines and their templates, BMCEventSubscriptions and HostClaims, which
	// reference Secrets like hosts. Secrets are those of the namespace, by name.
	Naming  []metav1.Object
	Secrets map[string]*metav1.PartialObjectMetadata

	// Others are other objects that could move, by their names in messages.
	Others map[string]metav1.Object

	// definitions are the CRDs of the cluster, by name, and whether clusterctl discovers their kinds.
	definitions map[string]bool

	// owners are the names of the CRDs of kinds of owners, as found so far.
	owners map[ownerKind]string
}

// ownerKind is the kind of an owner in an owner reference.
type ownerKind struct{ apiVersion, kind string }

// EndpointFacts decide whether the control plane could take the VIP of a cluster. They are empty without an endpoint.
type EndpointFacts struct {
	// Infra is the Metal3Cluster with the endpoint.
	Infra Subject

	// Endpoint is the outcome of the probe of the Ironic endpoint.
	Endpoint outcome.Outcome

	// BareNodes are the control-plane nodes without the pods of the Ironic endpoint, which cannot take the VIP.
	BareNodes []string

	// NodesUnknown is the error of reading the pods. Empty if they were read.
	NodesUnknown string
}

// AddDefinition adds a CRD and its labels. All CRDs are added before the first judgement.
func (f *MoveFacts) AddDefinition(name string, labels map[string]string) {
	for _, label := range MissingLabels(name, labels) {
		f.MissingLabels = append(f.MissingLabels, name+": "+label)
	}
	if f.definitions == nil {
		f.definitions = map[string]bool{}
	}
	_, labelled := labels[infrav1.DiscoverLabel]
	// The missing label of a CRD of BMO is an obstacle already.
	f.definitions[name] = labelled || len(MoveLabels(name)) > 0
}

// Refuse adds the error of the API server for the pause of a host.
func (f *MoveFacts) Refuse(host *bmov1alpha1.BareMetalHost, refusal string) {
	if f.Refusals == nil {
		f.Refusals = map[string]string{}
	}
	f.Refusals[host.Name] = refusal
}

// ToPark returns true if a move must change a host, now or when BMO has finished its operation.
func ToPark(host *bmov1alpha1.BareMetalHost) bool {
	return !infrav1.IsLeaving(host) && host.DeletionTimestamp.IsZero() && !Parked(host)
}

// AddClass adds a ClusterClass. clusterctl pauses a ClusterClass by annotation.
func (f *MoveFacts) AddClass(class metav1.Object) {
	if _, paused := class.GetAnnotations()[clusterv1.PausedAnnotation]; paused {
		f.PausedClasses = append(f.PausedClasses, class.GetName())
	}
}

// AddRemediation adds a Metal3Remediation that has begun. A Metal3Remediation without the finalizer has not powered a
// host off, or has restored it. It may wait without limit for a reboot that would stop the management cluster.
func (f *MoveFacts) AddRemediation(remediation metav1.Object) {
	if slices.Contains(remediation.GetFinalizers(), infrav1.RemediationFinalizer) {
		f.Remediations = append(f.Remediations, remediation.GetName())
	}
}

// Pools returns an empty list of IPPools of Metal3 to read into.
func Pools() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	version := schema.GroupVersion{Group: hostdata.Metal3PoolGroup, Version: "v1alpha1"}
	list.SetGroupVersionKind(version.WithKind(hostdata.Metal3PoolKind + "List"))
	return list
}

// AddPools adds the IPPools of the namespace.
func (f *MoveFacts) AddPools(pools *unstructured.UnstructuredList) {
	for i := range pools.Items {
		pool := &pools.Items[i]
		cluster, _, _ := unstructured.NestedString(pool.Object, "spec", "clusterName")
		allocated, _, _ := unstructured.NestedMap(pool.Object, "status", "indexes")
		if cluster == "" && len(allocated) > 0 {
			f.OpenPools = append(f.OpenPools, pool.GetName())
		}
	}
}

// inOrder sorts objects from a cache, which have no order: a message that changes without a reason costs a write.
func (f MoveFacts) inOrder() MoveFacts {
	f.Hosts, f.Clusters, f.Machines = byName(f.Hosts), byName(f.Clusters), byName(f.Machines)
	f.Infras, f.Naming = byName(f.Infras), byName(f.Naming)
	f.Deleting = slices.SortedFunc(slices.Values(f.Deleting), func(a, b Obstacle) int {
		return cmp.Compare(a.Message, b.Message)
	})
	for _, names := range []*[]string{&f.PausedClasses, &f.Remediations, &f.MissingLabels, &f.BareNodes, &f.OpenPools} {
		*names = slices.Sorted(slices.Values(*names))
	}
	return f
}

func byName[T metav1.Object](objects []T) []T {
	return slices.SortedStableFunc(slices.Values(objects), func(a, b T) int {
		return cmp.Compare(a.GetName(), b.GetName())
	})
}

// Obstacles returns what prevents a move from succeeding, or what it would lose, with the remedies. None means that a
// move would succeed now.
//
//	seen                                             because
//	Cluster or ClusterClass paused                   clusterctl refuses
//	Cluster not provisioned, or without a node       clusterctl refuses
//	control plane that is scaling                    a handover needs its nodes
//	Metal3Machine that lost its host                 the move does not restore it
//	Metal3Cluster without block-move                 clusterctl does not wait until the hosts are parked
//	Ironic endpoint foreign, or no node can take it  the hosts would stay paused, or no node would hold the VIP
//	any obstacle of MayLeave                         the move would lose it
func Obstacles(facts MoveFacts) []Obstacle {
	facts = facts.inOrder()
	lost, waits := mayLeave(facts)
	return slices.Concat(refusals(facts), EndpointObstacles(facts.EndpointFacts), lost, waits)
}

// orphaned returns true if a host serves a missing Cluster. Without that Cluster the target would not unpause the host.
func orphaned(host *bmov1alpha1.BareMetalHost, clusters []*clusterv1.Cluster) []Obstacle {
	name := ClusterOf(host)
	there := func(cluster *clusterv1.Cluster) bool { return cluster.Name == name }
	if name == "" || len(clusters) == 0 || slices.ContainsFunc(clusters, there) {
		return nil
	}
	remedy := fmt.Sprintf("delete the %s %s that claims the host, or remove spec.consumerRef of the host",
		host.Spec.ConsumerRef.Kind, host.Spec.ConsumerRef.Name)
	return []Obstacle{About(hostKind, host).Blocks(CodeClusterMissing, remedy,
		"host %s serves Cluster %s, which does not exist", host.Name, name)}
}

// EndpointObstacles returns the problems of the Ironic endpoint of one cluster.
func EndpointObstacles(facts EndpointFacts) []Obstacle {
	var found []Obstacle
	if !facts.Endpoint.IsDone() {
		found = append(found, facts.Infra.Blocks(CodeEndpointNotReady, "", "Ironic endpoint: %s", facts.Endpoint.Message))
	}
	if facts.NodesUnknown != "" {
		found = append(found, facts.Infra.Blocks(CodeNodesUnknown, facts.NodesUnknown,
			"it is unknown whether the control plane can take the Ironic endpoint"))
	}
	for _, node := range facts.BareNodes {
		found = append(found, AboutNamed("Node", "", node).Blocks(CodePodsMissing,
			"check its pods, or roll the control plane out", "node %s does not run the pods of the Ironic endpoint", node))
	}
	return found
}

// hostObstacles returns why a host cannot be moved now. A host whose Clusters are paused must be parked, unless
// clusterctl is deleting it.
func (f *MoveFacts) hostObstacles(host *bmov1alpha1.BareMetalHost) []Obstacle {
	var found []Obstacle
	left := infrav1.IsLeaving(host)
	busy, held, parking := Delays(host), arrivalObstacles(host, f.Around), GoalOf(host, f.Around) == PhaseParked
	refusal, about := f.Refusals[host.Name], About(hostKind, host)
	switch {
	case left && parking:
		return nil
	case len(held) > 0:
		found = held
	case left:
		found = append(found, about.Blocks(CodeLeftover, "remove it with "+discardCommand(host),
			"BareMetalHost %s is a leftover of an earlier move", host.Name))
	case refusal != "":
		found = append(found, about.Blocks(CodePauseRefused, "correct the host",
			"BareMetalHost %s cannot be paused, because the API server refuses to change it: %s", host.Name, refusal))
	case busy != "":
		found = append(found, busyObstacle(host, busy))
	case parking && !parkedFor(host, f.Around):
		found = append(found, about.Blocks(CodeHostParking, "wait until it is paused", "host %s is being paused", host.Name))
	}
	if _, blocks := host.Annotations[infrav1.BlockMoveAnnotation]; blocks {
		found = append(found, about.Blocks(CodeMoveBlocked, "remove it",
			"host %s has annotation %s", host.Name, infrav1.BlockMoveAnnotation))
	}
	return found
}

func busyObstacle(host *bmov1alpha1.BareMetalHost, busy string) Obstacle {
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	about := About(hostKind, host)
	switch {
	case paused && by == infrav1.HostPausedByProvider && !host.DeletionTimestamp.IsZero():
		return about.Blocks(CodeHostBusy, "unpause the Cluster, so that BMO wipes and deletes the host",
			"host %s is being deleted, and kept as it is while its Cluster is paused", host.Name)
	case paused && by != infrav1.HostPausedByProvider:
		return about.Blocks(CodeHostPaused, "remove its annotation "+bmov1alpha1.PausedAnnotation,
			"host %s is paused in the middle of %s", host.Name, busy)
	case MovesWhileBusy(host):
		remedy := "wait until it is done, or let it move meanwhile with " +
			pluginCommand("allow-busy", host.Namespace, "--host "+host.Name)
		return about.Blocks(CodeHostBusy, remedy, "host %s is %s", host.Name, busy)
	default:
		return about.Blocks(CodeHostBusy, "wait until it is done", "host %s is %s", host.Name, busy)
	}
}

// WaveDelay returns the time between a change of the VIP holder and the Nudge of the host at this place of the list.
func WaveDelay(place int) time.Duration { return time.Duration(place/waveSize) * wavePause }
