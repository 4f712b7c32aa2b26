package host

import (
	"fmt"
	"slices"
	"strings"
	"time"

	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// Node holds the fields of a Node that PlanLink uses.
type Node struct {
	Name, ProviderID string

	// HostUID is the value of the label metal3.io/uuid. Empty means that there is none.
	HostUID string

	// Created is the creationTimestamp.
	Created time.Time

	// Reporting is true if the condition Ready is True or False, so that a kubelet updates the Node. Without one, the node
	// controller of the workload cluster sets the condition to Unknown.
	Reporting bool
}

// NodeFacts are the Nodes that may belong to a machine.
type NodeFacts struct {
	// ByProviderID are the Nodes with the provider ID of the machine.
	ByProviderID []Node

	// ByHostUID are the Nodes with the UID of the host in the label metal3.io/uuid.
	ByHostUID []Node

	// ByHostname are the Nodes with the host name that the inspection found.
	ByHostname []Node

	// OtherHosts are the values of the label metal3.io/uuid in ByHostname that are UIDs of other hosts. A value that is
	// missing here is stale: a move changes the UID of a host.
	OtherHosts []string

	// SharedHostname is true if the inspection found the same host name on several hosts. Set for OnlyByHostname.
	SharedHostname bool
}

// OnlyByHostname returns true if Nodes were found by host name only.
func (f NodeFacts) OnlyByHostname() bool {
	return len(f.ByProviderID) == 0 && len(f.ByHostUID) == 0 && len(f.ByHostname) > 0
}

// HostUIDs returns the values of the label metal3.io/uuid that the caller must look up for OtherHosts. It returns none
// unless OnlyByHostname.
func (f NodeFacts) HostUIDs() []string {
	if !f.OnlyByHostname() {
		return nil
	}
	var uids []string
	for _, node := range f.ByHostname {
		if node.HostUID != "" {
			uids = append(uids, node.HostUID)
		}
	}
	return uids
}

// ofThisHost returns the Nodes of ByHostname that joined after a time and cannot belong to another host.
func (f NodeFacts) ofThisHost(since time.Time) []Node {
	var nodes []Node
	for _, node := range f.ByHostname {
		if !f.SharedHostname && !node.Created.Before(since) && !slices.Contains(f.OtherHosts, node.HostUID) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// ofHostUID returns the Nodes of ByHostUID. If only one of them joined after a time, it returns this Node.
func (f NodeFacts) ofHostUID(since time.Time) []Node {
	var joined []Node
	for _, node := range f.ByHostUID {
		if !node.Created.Before(since) {
			joined = append(joined, node)
		}
	}
	if len(joined) == 1 {
		return joined
	}
	return f.ByHostUID
}

// ProvisionedSince returns the time when BMO began to provision the host, or the given time if the host has no such
// record. The record is in the status: after a move, the record is missing until BMO restores the status, and a host
// that lost its status has no record.
func ProvisionedSince(host *bmov1alpha1.BareMetalHost, unknown time.Time) time.Time {
	if start := host.Status.OperationHistory.Provision.Start; !start.IsZero() {
		return start.Time
	}
	return unknown
}

// Linking describes the machine for PlanLink.
type Linking struct {
	ProviderID string

	// HostUID is the UID of the host, the value of the label metal3.io/uuid of its Node.
	HostUID string

	// Since is the start of provisioning. An older Node belongs to an earlier system, unless a kubelet updates it.
	Since time.Time

	// CloudProvider is true if a cloud provider sets the provider ID of the Node.
	CloudProvider bool

	// BeforeNode is true if the machine counts as provisioned before its Node exists, because only this provider sets the
	// provider ID.
	BeforeNode bool
}

// LinkPlan is the result of PlanLink.
type LinkPlan struct {
	// Patch is the name of the Node to set the provider ID on. Empty means none.
	Patch string

	// Provisioned is true if the machine may publish its provider ID.
	Provisioned bool

	// Outcome is done once the Node has the provider ID, after Patch is written.
	Outcome outcome.Outcome
}

// PlanLink decides which Node belongs to a machine.
//
//	with the provider ID   by host UID              by host name         plan
//	one                    any                      any                  linked
//	several                any                      any                  conflict
//	none                   one with that ID         any                  linked: the Node changed between the two reads
//	none                   one with another ID      any                  conflict
//	none                   one stale, without ID    any                  wait for its kubelet, or another Node
//	none                   any other without ID     any                  write the ID, linked
//	none                   several                  any                  conflict
//	none                   none                     one without ID       write the ID, linked
//	none                   none                     anything else        wait for the Node
//
// A Node is stale if it is older than the provisioning of the host, and no kubelet updates it: a Machine that was
// deleted without a nodeRef leaves its Node. A new kubelet with the same node name updates the older Node. If exactly
// one of several Nodes by host UID joined after the start of provisioning, only this one counts.
//
// Several hosts may have the same host name, such as "localhost", so a host name never causes a conflict. If a cloud
// provider sets the provider ID, PlanLink waits for it. A provider ID is immutable, so PlanLink ignores a Node found by
// host name in these cases:
//
//   - it is older than the provisioning of the host
//   - its label metal3.io/uuid is the UID of another host
//   - another host has the same host name
func PlanLink(facts NodeFacts, wanted Linking) LinkPlan {
	switch len(facts.ByProviderID) {
	case 1:
		return LinkPlan{Provisioned: true}
	case 0:
		return planUnlinked(facts, wanted)
	default:
		return conflict(fmt.Sprintf("Nodes %s have the same provider ID %s: delete the stale ones",
			names(facts.ByProviderID), wanted.ProviderID))
	}
}

func planUnlinked(facts NodeFacts, wanted Linking) LinkPlan {
	byHostUID, byHostname := facts.ofHostUID(wanted.Since), facts.ofThisHost(wanted.Since)
	switch {
	case len(byHostUID) > 1:
		return conflict(fmt.Sprintf("Nodes %s have the label %s of the same host: delete the stale ones",
			names(byHostUID), infrav1.HostUIDLabel))
	case len(byHostUID) == 1:
		return planByHostUID(byHostUID[0], wanted)
	case wanted.CloudProvider:
		return waitForCloudProvider(wanted)
	case len(byHostname) == 1 && byHostname[0].ProviderID == "":
		return LinkPlan{Patch: byHostname[0].Name, Provisioned: true}
	default:
		return waitForNode(wanted, facts.notOfThisHost(wanted))
	}
}

// notOfThisHost says why a Node of ByHostname is not used, and how a user has it used. It prefers a Node without a
// provider ID.
func (f NodeFacts) notOfThisHost(wanted Linking) string {
	if len(f.ByHostname) == 0 {
		return ""
	}
	node := slices.MinFunc(f.ByHostname, func(a, b Node) int { return strings.Compare(a.ProviderID, b.ProviderID) })
	why := fmt.Sprintf("several Nodes have it: %s", names(f.ByHostname))
	remedy := fmt.Sprintf("set the label: kubectl label node %s %s=%s --overwrite",
		node.Name, infrav1.HostUIDLabel, wanted.HostUID)
	switch {
	case node.ProviderID != "":
		why, remedy = "its provider ID is "+node.ProviderID+", which is immutable", register(node)
	case f.SharedHostname:
		why = "other hosts have it too"
	case slices.Contains(f.OtherHosts, node.HostUID):
		why = "its label names another host"
	case node.Created.Before(wanted.Since):
		why = "it is older than the system on the host, unless the clock of the workload cluster is behind"
	}
	return fmt.Sprintf(": Node %s has the host name of the host, but %s. If it belongs to the host, %s",
		node.Name, why, remedy)
}

// register returns how a user replaces a Node with another provider ID, which is immutable. A kubelet registers its
// Node only when it starts, and keeps the provider ID of an existing Node.
func register(node Node) string {
	return fmt.Sprintf("delete the Node and restart the kubelet of the host: kubectl delete node %s. If the kubelet has "+
		"the flag --provider-id, correct the bootstrap configuration and replace the Machine instead of the restart",
		node.Name)
}

func planByHostUID(node Node, wanted Linking) LinkPlan {
	switch {
	case node.ProviderID == wanted.ProviderID:
		return LinkPlan{Provisioned: true}
	case wanted.CloudProvider:
		return waitForCloudProvider(wanted)
	case node.ProviderID != "":
		return conflict(fmt.Sprintf("Node %s has provider ID %s instead of %s, and a provider ID is immutable: %s",
			node.Name, node.ProviderID, wanted.ProviderID, register(node)))
	case node.Created.Before(wanted.Since) && !node.Reporting:
		return waitForNode(wanted, fmt.Sprintf(": Node %s has the label, but is older than the system on the host, "+
			"and no kubelet updates it. If this lasts, delete Node %s.", node.Name, node.Name))
	default:
		return LinkPlan{Patch: node.Name, Provisioned: true}
	}
}

func waitForCloudProvider(wanted Linking) LinkPlan {
	return LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForCloudProviderReason,
		"Waiting for the cloud provider to set provider ID "+wanted.ProviderID+" on a Node")}
}

func waitForNode(wanted Linking, details string) LinkPlan {
	return LinkPlan{Provisioned: wanted.BeforeNode, Outcome: outcome.Waiting(infrav1.WaitingForNodeReason,
		"Waiting for a Node with provider ID "+wanted.ProviderID+" or with label "+infrav1.HostUIDLabel+details)}
}

func conflict(message string) LinkPlan {
	return LinkPlan{Outcome: outcome.Blocked(infrav1.ProviderIDConflictReason, message)}
}

func names(nodes []Node) string {
	list := make([]string, 0, len(nodes))
	for _, node := range nodes {
		list = append(list, node.Name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
