package pivot

import (
	"cmp"
	"slices"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Neighbour is a Cluster that decides about a host: a Cluster of its namespace, or one of another namespace whose
// Ironic may serve the host. Only Clusters with a Metal3Cluster count.
type Neighbour struct {
	// Name of the Cluster. Empty for another namespace.
	Name string

	// Infra is the name of its Metal3Cluster. Empty if there is none, and for another namespace.
	Infra string

	// Elsewhere is true if the Cluster is in another namespace, and Namespace is its name then.
	Elsewhere bool
	Namespace string

	// Foreign is true for a Cluster of another namespace that another manager reconciles. Its Ironic serves only hosts
	// that name it: the other namespace may have another host operator and another Ironic.
	Foreign bool

	// ClusterID names the Ironic of its endpoint. Empty if there is no endpoint, or none was chosen yet.
	ClusterID string

	// Paused is true if the Cluster is paused, as clusterctl move does first.
	Paused bool

	// Verified is true if BMO may act on the hosts of the Cluster.
	Verified bool

	// Ungated is true if clusterctl would not wait for the hosts of the Cluster: the block-move annotation is not
	// restored yet, or there is no Metal3Cluster.
	Ungated bool

	// Endpoint is true if the Cluster has an Ironic endpoint, or that its Metal3Cluster has not arrived yet.
	Endpoint bool

	// Superseded is true if another management cluster manages the Cluster. For another namespace it is false once the
	// Cluster is paused: see FencesOthers.
	Superseded bool

	// Holder is the VIP holder of the Ironic endpoint. Nil if unknown, or without an endpoint.
	Holder *infrav1.IronicHolder

	// Epoch is that of the Metal3Cluster. Arrival is that of the move after which the Cluster was unpaused last. Both
	// are 0 for another namespace.
	Epoch, Arrival Epoch
}

// NeighbourOf returns a Cluster and its Metal3Cluster, which is nil if it does not exist, as a neighbour.
func NeighbourOf(cluster *clusterv1.Cluster, infra *infrav1.Metal3Cluster) Neighbour {
	neighbour := Neighbour{Name: cluster.Name, Paused: ptr.Deref(cluster.Spec.Paused, false)}
	if infra == nil {
		neighbour.Endpoint, neighbour.Ungated = cluster.DeletionTimestamp.IsZero(), true
		return neighbour
	}
	neighbour.Verified, neighbour.Endpoint, neighbour.Ungated = Verified(infra), infra.Spec.Ironic != nil, ungated(infra)
	neighbour.Infra, neighbour.Epoch, neighbour.Arrival = infra.Name, EpochOf(infra), ArrivalOfCluster(infra)
	neighbour.Superseded = IsSuperseded(infra)
	if neighbour.Endpoint {
		neighbour.Holder, neighbour.ClusterID = Holder(infra), infra.Spec.Ironic.ClusterID
	}
	return neighbour
}

// NeighbourElsewhere returns a Metal3Cluster with an Ironic endpoint in another namespace as a neighbour. The endpoint
// of a paused Cluster is not verified.
func NeighbourElsewhere(infra *infrav1.Metal3Cluster) Neighbour {
	return Neighbour{
		Elsewhere: true, Namespace: infra.Namespace, Endpoint: true, ClusterID: infra.Spec.Ironic.ClusterID,
		Verified: Verified(infra), Superseded: FencesOthers(infra), Holder: Holder(infra),
	}
}

// NeighboursOf returns the Clusters of a namespace with a Metal3Cluster, sorted by name. The Metal3Clusters of other
// namespaces with an Ironic endpoint follow. The caller passes the Clusters of the namespace and all Metal3Clusters. An
// empty namespace means all namespaces.
func NeighboursOf(namespace string, clusters []clusterv1.Cluster, all []infrav1.Metal3Cluster) []Neighbour {
	infras := make(map[string]*infrav1.Metal3Cluster, len(all))
	var elsewhere []Neighbour
	for i := range all {
		infra := &all[i]
		switch {
		case namespace == "" || infra.Namespace == namespace:
			infras[infra.Name] = infra
		case infra.Spec.Ironic != nil:
			elsewhere = append(elsewhere, NeighbourElsewhere(infra))
		}
	}
	var around []Neighbour
	for i := range clusters {
		cluster := &clusters[i]
		if cluster.Spec.InfrastructureRef.Kind == "Metal3Cluster" {
			around = append(around, NeighbourOf(cluster, infras[cluster.Spec.InfrastructureRef.Name]))
		}
	}
	// The cache returns them in any order, and the caller uses the first one with a VIP holder.
	slices.SortFunc(around, func(a, b Neighbour) int { return cmp.Compare(a.Name, b.Name) })
	slices.SortFunc(elsewhere, func(a, b Neighbour) int { return cmp.Compare(a.ClusterID, b.ClusterID) })
	return append(around, elsewhere...)
}

// AsForeign marks the Clusters of other namespaces as foreign, for a manager of one namespace.
func AsForeign(around []Neighbour) []Neighbour {
	for i := range around {
		around[i].Foreign = around[i].Elsewhere
	}
	return around
}

// ungated returns true if the block-move annotation is missing. A Metal3Cluster that an external system manages never
// has it.
func ungated(infra *infrav1.Metal3Cluster) bool {
	_, gated := infra.Annotations[infrav1.BlockMoveAnnotation]
	return !gated && !isExternal(infra)
}

// isExternal returns true for a Metal3Cluster that an external system manages, by the contract of Cluster API.
func isExternal(infra *infrav1.Metal3Cluster) bool {
	_, external := infra.Annotations[clusterv1.ManagedByAnnotation]
	return external
}

// waitsAtGate returns true for a paused Cluster with block-move. clusterctl copies nothing until all Metal3Clusters of
// the namespace have lost block-move, and each of them waits for all hosts.
func waitsAtGate(other Neighbour) bool { return other.Paused && !other.Ungated }

// Verified returns true if BMO may act on the hosts of a Cluster: its Ironic answers at the endpoint, or this provider
// manages no endpoint for the Cluster.
func Verified(infra *infrav1.Metal3Cluster) bool {
	return infra.Spec.Ironic == nil ||
		meta.IsStatusConditionTrue(infra.Status.Conditions, infrav1.IronicEndpointReadyCondition)
}

// Holder returns the VIP holder of a Cluster as observed. Nil if unknown.
func Holder(infra *infrav1.Metal3Cluster) *infrav1.IronicHolder {
	if infra.Status.Ironic == nil {
		return nil
	}
	return infra.Status.Ironic.Holder
}

// GoalOf returns the phase that the Clusters of its namespace require of a host: Running, Parked, or Fenced.
// WaitingForEndpoint means that the pause of the host does not change, because its Clusters do not exist, or their
// Ironic endpoint is not verified.
//
//	host serves   its Cluster                                         goal
//	any           any, and another management cluster has claimed     Fenced
//	              the Cluster of another namespace whose Ironic
//	              serves the host
//	a Cluster     is claimed by another management cluster            Fenced
//	              is paused                                           Parked
//	              runs and its block-move annotation is not back      WaitingForEndpoint
//	              runs and is verified, and so is the Ironic that     Running
//	              serves the host
//	              runs and one of them is not                         WaitingForEndpoint
//	              runs, and the host AwaitsIronic                     WaitingForEndpoint
//	              does not exist, and all others are paused           Parked
//	              does not exist otherwise                            WaitingForEndpoint
//	none of ours  another management cluster has claimed one of them  Fenced
//	              all Clusters are paused                             Parked
//	              has the epoch of a paused one                       Parked
//	              some run, and the annotation of one is not back     WaitingForEndpoint
//	              some run, and all of those are verified, and so is  Running
//	              the Ironic that serves the host
//	              some run and one is not                             WaitingForEndpoint
//	              some run, and the host AwaitsIronic                 WaitingForEndpoint
//	              some run, and the host is paused and arrived        WaitingForEndpoint
//	              before the Clusters that it moves with
//	              there are none, the host is not paused, and the     Running
//	              Ironic that serves it is verified
//	              there are none otherwise                            WaitingForEndpoint
//
// A host is resumed only when the block-move annotation is restored: otherwise a second clusterctl would not wait for
// the host.
//
// A host without a consumer moves with its namespace. clusterctl move pauses all Clusters of a namespace. A running
// Cluster proves that no move is in progress, unless the host has the epoch of a paused one. Such a host stays parked
// until all Clusters of its move run on one side: while some of them run in the source and others in the target, both
// sides could resume it. A running Cluster that was created during the move, or was in the target before, does not
// count. clusterctl creates hosts and Clusters in any order, and Metal3Clusters later, so a host may arrive before the
// Clusters that it moves with. Nothing distinguishes these Clusters of another origin from them: one that the user has
// paused with the same epoch, and one that runs with a higher epoch.
//
// A host whose Cluster does not exist is parked while all Clusters are paused. It is resumed only when its Cluster
// exists, or its consumer is removed.
func GoalOf(host *bmov1alpha1.BareMetalHost, around []Neighbour) Phase {
	deciding := dependsOn(host, around)
	orphaned := len(deciding) == 0
	if orphaned {
		deciding = local(around)
	}
	running := those(deciding, func(other Neighbour) bool { return !other.Paused })
	ungated := func(other Neighbour) bool { return other.Ungated }
	superseded := func(other Neighbour) bool { return other.Superseded }
	serving := servedBy(host, around)
	switch {
	case slices.ContainsFunc(serving, fencesElsewhere):
		return PhaseFenced
	case len(deciding) == 0 && runsAlone(host, serving):
		return PhaseRunning
	case len(deciding) == 0, orphaned && len(running) > 0:
		return PhaseWaitingForEndpoint
	case slices.ContainsFunc(deciding, superseded):
		return PhaseFenced
	case len(running) == 0, movesBeside(host, deciding):
		return PhaseParked
	case slices.ContainsFunc(running, ungated), slices.ContainsFunc(running, unverified),
		slices.ContainsFunc(serving, unverified), AwaitsIronic(host, around) != "", awaitsArrival(host, around):
		return PhaseWaitingForEndpoint
	default:
		return PhaseRunning
	}
}

func unverified(other Neighbour) bool { return !other.Verified }

// runsAlone returns true for a host without a Cluster that is not paused, and whose Ironic is verified.
func runsAlone(host *bmov1alpha1.BareMetalHost, serving []Neighbour) bool {
	_, held := host.Annotations[bmov1alpha1.PausedAnnotation]
	return ClusterOf(host) == "" && !held && len(serving) > 0 && !slices.ContainsFunc(serving, unverified)
}

// fencesElsewhere returns true for a Cluster of another namespace that fences the hosts that its Ironic serves.
func fencesElsewhere(other Neighbour) bool { return other.Elsewhere && other.Superseded }

// movesBeside returns true for a host that moves with a paused Cluster.
func movesBeside(host *bmov1alpha1.BareMetalHost, deciding []Neighbour) bool {
	return slices.ContainsFunc(deciding, func(other Neighbour) bool {
		// Parsing the epoch of a host that has none allocates.
		return other.Paused && moves(other, EpochOf(host))
	})
}

// awaitsClusters returns true for a host that moves with a paused Cluster while another Cluster runs.
func awaitsClusters(host *bmov1alpha1.BareMetalHost, around []Neighbour) bool {
	deciding := dependsOn(host, around)
	isRunning := func(other Neighbour) bool { return !other.Paused }
	return slices.ContainsFunc(deciding, isRunning) && movesBeside(host, deciding)
}

// those are the neighbours that fit. Without one it allocates nothing: it runs several times for each host.
func those(around []Neighbour, fits func(Neighbour) bool) []Neighbour {
	var found []Neighbour
	for _, other := range around {
		if fits(other) {
			found = append(found, other)
		}
	}
	return found
}

// local returns the Clusters in the namespace of the host.
func local(around []Neighbour) []Neighbour {
	return those(around, func(other Neighbour) bool { return !other.Elsewhere })
}

// dependsOn returns the Clusters that decide about a host: its own or, without a consumer, all of its namespace.
func dependsOn(host *bmov1alpha1.BareMetalHost, around []Neighbour) []Neighbour {
	name := ClusterOf(host)
	return those(around, func(other Neighbour) bool {
		return !other.Elsewhere && (name == "" || other.Name == name)
	})
}

// servedBy returns the Clusters with the Ironic endpoint that serves a host. BMO has one Ironic for all its namespaces.
// The first row that matches counts.
//
//	endpoint                                            serves the host
//	of its own Cluster                                  yes
//	of another Cluster of the namespace                 yes
//	in other namespaces, of one clusterID               yes, unless foreign
//	in other namespaces, foreign                        yes, if the host names it
//	in other namespaces, of several clusterIDs          unknown: each has its own BMO
func servedBy(host *bmov1alpha1.BareMetalHost, around []Neighbour) []Neighbour {
	own := dependsOn(host, around)
	if len(own) == 0 && ClusterOf(host) != "" {
		return nil
	}
	for _, candidates := range [][]Neighbour{own, local(around)} {
		if serving := withEndpoint(candidates); len(serving) > 0 {
			return serving
		}
	}
	return onlyElsewhere(host, around)
}

func withEndpoint(around []Neighbour) []Neighbour {
	return those(around, func(other Neighbour) bool { return other.Endpoint })
}

// onlyElsewhere returns the endpoints of other namespaces that may serve a host, if they belong to one Ironic.
func onlyElsewhere(host *bmov1alpha1.BareMetalHost, around []Neighbour) []Neighbour {
	named := host.Annotations[infrav1.IronicClusterIDAnnotation]
	serving := those(around, func(other Neighbour) bool {
		return other.Elsewhere && other.Endpoint && (!other.Foreign || other.ClusterID == named)
	})
	another := func(other Neighbour) bool { return other.ClusterID != serving[0].ClusterID }
	if len(serving) == 0 || serving[0].ClusterID == "" || slices.ContainsFunc(serving, another) {
		return nil
	}
	return serving
}

// ClusterOf returns the name of the Cluster that a host serves or is reserved for. Empty for a host without a consumer
// of this provider.
func ClusterOf(host *bmov1alpha1.BareMetalHost) string {
	consumer := host.Spec.ConsumerRef
	switch {
	case consumer == nil:
		return ""
	case consumer.Kind == clusterv1.ClusterKind && consumer.GroupVersionKind().Group == clusterv1.GroupVersion.Group:
		return consumer.Name
	case consumer.GroupVersionKind().Group == infrav1.GroupVersion.Group:
		return host.Labels[clusterv1.ClusterNameLabel]
	default:
		return ""
	}
}
