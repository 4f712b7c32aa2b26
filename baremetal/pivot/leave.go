package pivot

import (
	"slices"
	"strings"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/host"
)

// MayLeave returns what a move would lose, with the remedies. It decides when the manager removes block-move, for
// ReadyForMove, and for the preflight of the plugin. The manager may remove block-move if lost and waits are empty.
//
// Lost obstacles require running Clusters: Cluster API finishes its operations, and clusterctl discovers the objects
// again.
// Waits obstacles end with time or with the remedy, while the Clusters are paused.
//
//	seen                                             is     because
//	Cluster, Machine or Metal3Machine being deleted  lost   clusterctl moves no deletion: the target would keep the
//	                                                        Machine, or deploy the image again
//	MachineDeployment, MachineSet or control plane   lost   the same: its Machines are deleted a moment later
//	being deleted
//	Cluster that another management cluster claimed  lost   the target would get outdated objects
//	Machine without a node                           lost   clusterctl has not discovered it: it refuses to begin with
//	                                                        such a Machine
//	Metal3Machine without an owner                   lost   clusterctl omits it: no machine would claim its host
//	Metal3Remediation that has begun                 lost   its try begins again in the target, with the host off until
//	                                                        then
//	label missing on a CRD                           lost   clusterctl omits the whole kind
//	owner that does not move                         lost   clusterctl omits the objects that it owns
//	Secret without owner and label                   lost   clusterctl omits it
//	host or Cluster created after the Clusters were  lost   clusterctl has not discovered it, and would not move it
//	paused
//	Cluster not paused, while others are             waits  it uses the free hosts, which move with the others
//	host claimed by a Metal3Machine that is missing  waits  no controller would release it
//	host of a Cluster that does not exist            waits  no controller would resume it
//	host whose pause is refused, or was not tried    waits  its status cannot be recorded
//	host busy                                        waits  BMO would begin the operation again
//	host that is a leftover, or arrived on one       waits  BMO would wipe it
//	host with block-move                             waits  no controller removes it, so clusterctl returns an error
//	host of paused Clusters that is not parked       waits  its status would be lost
//	IPPool without spec.clusterName                  waits  the address manager of the target would not wait for the
//	                                                        IPAddresses, and allocate theirs to other IPClaims
func MayLeave(facts MoveFacts) (lost, waits []Obstacle) { return mayLeave(facts.inOrder()) }

// Staying returns the obstacles that a label ends. clusterctl reads labels and owners once, before it pauses the
// Clusters, so it leaves these objects behind in this move.
func Staying(lost []Obstacle) []Obstacle {
	return slices.DeleteFunc(slices.Clone(lost), func(each Obstacle) bool {
		return each.Code != CodeSecretStays && each.Code != CodeOwnerStays && each.Code != CodeMoveLabelMissing
	})
}

// MoveIncomplete returns the obstacle of a move that would leave behind what the annotation move-incomplete names.
func MoveIncomplete(infra *infrav1.Metal3Cluster, missed string) Obstacle {
	return About("Metal3Cluster", infra).Blocks(CodeMoveLabelMissing, "", "this was corrected after clusterctl had "+
		"discovered the objects, so clusterctl would not move it: %s", missed)
}

// mayLeave is MayLeave for sorted facts.
func mayLeave(facts MoveFacts) (lost, waits []Obstacle) {
	for _, cluster := range facts.Clusters {
		if !cluster.DeletionTimestamp.IsZero() {
			lost = append(lost, deletionOf("Cluster", cluster))
		}
	}
	late, running := facts.unpaused()
	lost, waits = append(lost, late...), append(waits, running...)
	for _, other := range local(facts.Around) {
		if other.Superseded {
			lost = append(lost, AboutNamed("Cluster", facts.Namespace, other.Name).Blocks(CodeSuperseded, "move it from there",
				"Cluster %s is managed by another management cluster, as IronicEndpointReady says", other.Name))
		}
	}
	for _, other := range servedBy(&bmov1alpha1.BareMetalHost{}, facts.Around) {
		if fencesElsewhere(other) {
			lost = append(lost, AboutNamed("Namespace", "", other.Namespace).Blocks(CodeSuperseded,
				"pause its Cluster with "+pluginCommand("fence", other.Namespace)+", or take over with "+
					pluginCommand("takeover", other.Namespace), "the Cluster of namespace %s, whose Ironic serves the hosts, is "+
					"managed by another management cluster, as IronicEndpointReady says", other.Namespace))
		}
	}
	for _, label := range facts.MissingLabels {
		name, _, _ := strings.Cut(label, ":")
		lost = append(lost, AboutNamed("CustomResourceDefinition", "", name).Blocks(CodeMoveLabelMissing,
			"set this label, or run the manager with --keep-move-labels", "CustomResourceDefinition %s is missing", label))
	}
	lost = slices.Concat(lost, facts.Deleting, leftBehind(facts), losses(facts), facts.late())
	if facts.Untried {
		waits = append(waits, AboutNothing().Blocks(CodePauseUntried, "wait some seconds",
			"the pause of some BareMetalHosts was not tried yet"))
	}
	for _, pool := range facts.OpenPools {
		waits = append(waits, AboutNamed("IPPool", facts.Namespace, pool).Blocks(CodePoolOpen,
			"set it to the name of a Cluster of the namespace", "IPPool %s has no spec.clusterName, so the address manager of "+
				"the target could give its addresses to other machines", pool))
	}
	consumers := facts.consumers()
	for _, each := range facts.Hosts {
		waits = append(waits, facts.hostObstacles(each)...)
		waits = append(waits, orphaned(each, facts.Clusters)...)
		waits = append(waits, unclaimed(each, consumers)...)
	}
	return lost, waits
}

func deletionOf(kind string, object metav1.Object) Obstacle {
	return About(kind, object).Blocks(CodeBeingDeleted, "wait until it is gone",
		"%s %s is being deleted, and a move would lose the deletion", kind, object.GetName())
}

// AddOwner adds an object that owns Machines, such as a MachineSet or a control plane.
func (f *MoveFacts) AddOwner(kind string, owner metav1.Object) {
	if owner.GetDeletionTimestamp() != nil {
		f.Deleting = append(f.Deleting, deletionOf(kind, owner))
	}
}

// unpaused returns the Clusters that run while others wait for block-move. It returns those apart that clusterctl has
// not discovered.
func (f *MoveFacts) unpaused() (late, running []Obstacle) {
	for _, cluster := range f.Clusters {
		switch {
		case f.PausedSince.IsZero(), ptr.Deref(cluster.Spec.Paused, false):
		case cluster.CreationTimestamp.After(f.PausedSince):
			late = append(late, About("Cluster", cluster).Blocks(CodeClusterLate, againRemedy, "Cluster %s "+
				"was created after clusterctl had discovered the objects, and would stay behind", cluster.Name))
		default:
			running = append(running, About("Cluster", cluster).Blocks(CodeClusterRuns, "wait until clusterctl pauses it; if "+
				"you paused another Cluster yourself, unpause that", "Cluster %s is not paused, so both sides would manage the "+
				"free hosts", cluster.Name))
		}
	}
	return late, running
}

// againRemedy is the remedy for an object that clusterctl has not discovered. A clusterctl that still runs would pass
// the gate of the next move too.
const againRemedy = "stop clusterctl, abort the move with `clusterctl metal3 pivot abort`, and move again; or delete it"

// late returns the hosts that were created after the Clusters were paused.
func (f *MoveFacts) late() []Obstacle {
	var found []Obstacle
	for _, host := range f.Hosts {
		if !f.PausedSince.IsZero() && host.CreationTimestamp.After(f.PausedSince) && !infrav1.IsLeaving(host) {
			found = append(found, About(hostKind, host).Blocks(CodeHostLate, againRemedy,
				"BareMetalHost %s was created after clusterctl had discovered the objects, and would stay behind", host.Name))
		}
	}
	return found
}

// losses returns the Machines, Metal3Machines and Metal3Remediations that a move would lose. The facts are sorted.
func losses(facts MoveFacts) []Obstacle {
	var found []Obstacle
	for _, machine := range facts.Machines {
		switch {
		case !machine.DeletionTimestamp.IsZero():
			found = append(found, deletionOf("Machine", machine))
		case !machine.Status.NodeRef.IsDefined():
			found = append(found, About("Machine", machine).Blocks(CodeNodeMissing, "wait for it, or delete it",
				"Machine %s has no node", machine.Name))
		}
	}
	for _, object := range facts.Naming {
		machine, is := object.(*infrav1.Metal3Machine)
		switch {
		case !is:
		case !machine.DeletionTimestamp.IsZero():
			found = append(found, deletionOf("Metal3Machine", machine))
		case !Moves(machine):
			found = append(found, About("Metal3Machine", machine).Blocks(CodeOwnerMissing,
				"wait until Cluster API sets it, or delete the Metal3Machine",
				"Metal3Machine %s has no ownerReference, so clusterctl would leave it behind", machine.Name))
		}
	}
	for _, remediation := range facts.Remediations {
		found = append(found, AboutNamed("Metal3Remediation", facts.Namespace, remediation).Blocks(CodeRemediationRunning,
			"wait until it is done, or delete it", "Metal3Remediation %s is running", remediation))
	}
	return found
}

// consumers returns the names of the Metal3Machines of the namespace.
func (f *MoveFacts) consumers() sets.Set[string] {
	names := sets.New[string]()
	for _, object := range f.Naming {
		if machine, is := object.(*infrav1.Metal3Machine); is {
			names.Insert(machine.Name)
		}
	}
	return names
}

// unclaimed returns true if a host is claimed by a Metal3Machine that is not among the consumers.
func unclaimed(claimed *bmov1alpha1.BareMetalHost, consumers sets.Set[string]) []Obstacle {
	consumer, held := host.Consumer(claimed)
	if !held || consumers.Has(consumer) {
		return nil
	}
	return []Obstacle{About(hostKind, claimed).Blocks(CodeConsumerMissing, "remove spec.consumerRef of the host",
		"BareMetalHost %s is claimed by Metal3Machine %s, which does not exist", claimed.Name, consumer)}
}
