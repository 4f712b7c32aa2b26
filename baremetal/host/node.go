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

// Node is what a decision needs of a node.
type Node struct {
	Name, ProviderID string

	// HostUID is the value of the label metal3.io/uuid. Empty means that there is none.
	HostUID string

	// Created is when the node joined.
	Created time.Time
}

// NodeFacts are the nodes that may be the one of a machine, found in three ways.
type NodeFacts struct {
	// ByProviderID are the nodes that carry the provider ID of the machine.
	ByProviderID []Node

	// ByHostUID are the nodes whose label metal3.io/uuid is the UID of the host.
	ByHostUID []Node

	// ByHostname are the nodes whose host name is the one that the inspection found.
	ByHostname []Node

	// OtherHosts are those values of the label metal3.io/uuid in ByHostname that are the UID of another host. A value
	// that is missing here is stale: a move gives a host a new UID.
	OtherHosts []string

	// SharedHostname says that the inspection found the same host name on several hosts. Set for OnlyByHostname.
	SharedHostname bool
}

// OnlyByHostname returns true if nodes were found by host name and in no other way.
func (f NodeFacts) OnlyByHostname() bool {
	return len(f.ByProviderID) == 0 && len(f.ByHostUID) == 0 && len(f.ByHostname) > 0
}

// HostUIDs are those values of the label metal3.io/uuid that OtherHosts is needed for. There are none where the host
// name of a node does not matter, because it was found in another way.
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

// ofThisHost returns the nodes that were found by host name and can only be on this host: they joined after a time, and
// neither their label nor the inspection of another host says otherwise.
func (f NodeFacts) ofThisHost(since time.Time) []Node {
	var nodes []Node
	for _, node := range f.ByHostname {
		if !f.SharedHostname && !node.Created.Before(since) && !slices.Contains(f.OtherHosts, node.HostUID) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// ProvisionedSince returns when BMO began to provision the host. It returns the given time where BMO has not recorded
// that. A move keeps the record.
func ProvisionedSince(host *bmov1alpha1.BareMetalHost, unknown time.Time) time.Time {
	if start := host.Status.OperationHistory.Provision.Start; !start.IsZero() {
		return start.Time
	}
	return unknown
}

// Linking is what is wanted of the node of a machine.
type Linking struct {
	ProviderID string

	// Since is when the host began to be provisioned. A node from before is that of an earlier system.
	Since time.Time

	// CloudProvider says that a cloud provider writes the provider ID on the node.
	CloudProvider bool

	// BeforeNode says that the machine counts as provisioned before its Node exists: only this provider connects the two.
	BeforeNode bool
}

// LinkPlan is the answer of PlanLink.
type LinkPlan struct {
	// Patch is the name of the node that should get the provider ID. Empty means none.
	Patch string

	// Provisioned says whether the machine may publish its provider ID.
	Provisioned bool

	// Outcome is done once the node carries the provider ID, after Patch is written.
	Outcome outcome.Outcome
}

// PlanLink decides which node belongs to a machine.
//
//	with the provider ID   by host UID          by host name         plan
//	one                    any                  any                  linked
//	several                any                  any                  conflict
//	none                   one without ID       any                  write the ID, linked
//	none                   one with that ID     any                  linked: the node changed between two looks
//	none                   one with another ID  any                  conflict
//	none                   several              any                  conflict
//	none                   none                 one without ID       write the ID, linked
//	none                   none                 anything else        wait for the node
//
// A host name that the inspection found may be as common as "localhost", so it never leads to a conflict. It may be
// that of another host by now, too, and a provider ID cannot be taken back: a node found by host name does not count if
// it joined before the host was provisioned, if its label metal3.io/uuid is the UID of another host, or if another host
// has the same host name. Where a cloud provider writes the ID, the provider waits instead of writing.
func PlanLink(facts NodeFacts, wanted Linking) LinkPlan {
	switch len(facts.ByProviderID) {
	case 1:
		return LinkPlan{Provisioned: true}
	case 0:
		return planUnlinked(facts, wanted)
	default:
		return conflict(fmt.Sprintf("Nodes %s all carry provider ID %s: delete the ones that are stale",
			names(facts.ByProviderID), wanted.ProviderID))
	}
}

func planUnlinked(facts NodeFacts, wanted Linking) LinkPlan {
	byHostname := facts.ofThisHost(wanted.Since)
	switch {
	case len(facts.ByHostUID) > 1:
		return conflict(fmt.Sprintf("Nodes %s all carry the label %s of one host: delete the ones that are stale",
			names(facts.ByHostUID), infrav1.HostUIDLabel))
	case len(facts.ByHostUID) == 1 && facts.ByHostUID[0].ProviderID == wanted.ProviderID:
		return LinkPlan{Provisioned: true}
	case len(facts.ByHostUID) == 1 && facts.ByHostUID[0].ProviderID != "" && !wanted.CloudProvider:
		return conflict(fmt.Sprintf("Node %s carries provider ID %s instead of %s",
			facts.ByHostUID[0].Name, facts.ByHostUID[0].ProviderID, wanted.ProviderID))
	case wanted.CloudProvider:
		return LinkPlan{Outcome: outcome.Waiting(infrav1.WaitingForCloudProviderReason,
			"Waiting for the cloud provider to give a node the provider ID "+wanted.ProviderID)}
	case len(facts.ByHostUID) == 1:
		return LinkPlan{Patch: facts.ByHostUID[0].Name, Provisioned: true}
	case len(byHostname) == 1 && byHostname[0].ProviderID == "":
		return LinkPlan{Patch: byHostname[0].Name, Provisioned: true}
	default:
		return LinkPlan{Provisioned: wanted.BeforeNode, Outcome: outcome.Waiting(infrav1.WaitingForNodeReason,
			"Waiting for a node with provider ID "+wanted.ProviderID+" or with the label "+infrav1.HostUIDLabel)}
	}
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
