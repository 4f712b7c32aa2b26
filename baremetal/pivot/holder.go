package pivot

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/outcome"
)

// clusterIDDigits is the length of a generated clusterID.
const clusterIDDigits = 8

// Answer is the kind of answer of an endpoint.
type Answer string

// Values of Answer.
const (
	// Answers means that an Ironic answered all requests.
	Answers Answer = "Answers"

	// Unreachable means that no node holds the VIP, or that Ironic of the VIP holder does not run yet.
	Unreachable Answer = "Unreachable"

	// Untrusted means that the certificate is of another authority, for another address, or out of its time.
	Untrusted Answer = "Untrusted"

	// Unauthorized means that the credentials were refused.
	Unauthorized Answer = "Unauthorized"

	// Broken means that the server does not answer like Ironic.
	Broken Answer = "Broken"

	// Unsupported means that the Ironic is too old.
	Unsupported Answer = "Unsupported"
)

// Sighting is the result of a probe of an endpoint.
type Sighting struct {
	Answer Answer

	// Detail is the error. Empty for Answers.
	Detail string

	// Conductors are the names of the live conductors. None means that the Ironic has just started.
	Conductors []string

	// Terms are the times at which conductors registered with their database, by name. Empty if unknown.
	Terms map[string]string

	// Nodes are the states of all nodes in Ironic, by their names.
	Nodes map[string]string
}

// Cluster has the facts about the cluster itself.
type Cluster struct {
	// ClusterID is the prefix of the names of its conductors.
	ClusterID string

	// Address is the name of the endpoint in messages.
	Address string

	// ControlPlane are the names of its control-plane nodes.
	ControlPlane []string

	// Incomplete is true if the control plane may have more nodes than those, as after a move, because a move keeps no
	// status of a Machine.
	Incomplete bool

	// Before is the last known VIP holder. Nil if unknown, as after a move.
	Before *infrav1.IronicHolder

	// Hosts are the names that its hosts have as nodes of Ironic.
	Hosts []string
}

// Verdict is the meaning of a sighting for a cluster.
type Verdict struct {
	// Holder is the VIP holder. Nil means unknown.
	Holder *infrav1.IronicHolder

	// KnownHosts is the number of hosts that are registered with Ironic, and adopted if they are provisioned. Nil unless
	// the Ironic of the cluster answers.
	KnownHosts *int32

	// Outcome is done when the Ironic of the cluster answers.
	Outcome outcome.Outcome

	// Message names the VIP holder. Empty unless Outcome is done.
	Message string
}

// ClusterID returns the clusterID of a cluster for the UID that it was created with.
func ClusterID(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return hex.EncodeToString(sum[:])[:clusterIDDigits]
}

// Judge returns the VIP holder of a cluster, and whether its endpoint is ready.
//
//	seen                                    holder                 ready
//	no answer                               None                   no
//	a conductor of a control-plane node     ControlPlane, node     yes
//	another conductor with our prefix       Management, node       yes
//	the same, while nodes may be missing    not known              yes
//	only conductors of other prefixes       Foreign, conductor     no
//	an Ironic without conductors            not known              no
//	anything else                           not known              no
func Judge(cluster Cluster, seen Sighting) Verdict {
	switch seen.Answer {
	case Answers:
		return cluster.identify(seen)
	case Unreachable:
		return Verdict{
			Holder: &infrav1.IronicHolder{Kind: infrav1.HolderNone},
			Outcome: outcome.Waiting(infrav1.EndpointUnreachableReason, fmt.Sprintf(
				"Waiting for Ironic to answer on %s: %s", cluster.Address, seen.Detail)),
		}
	case Untrusted:
		return waiting(infrav1.EndpointUntrustedReason,
			"The server at %s is not trusted: %s; give the Ironic there the certificate of this cluster", cluster, seen)
	case Unauthorized:
		return waiting(infrav1.EndpointUnauthorizedReason,
			"The Ironic on %s is not used: %s; give it the credentials of this cluster", cluster, seen)
	case Unsupported:
		return waiting(infrav1.EndpointUnsupportedReason, "The Ironic on %s is too old: %s; upgrade it", cluster, seen)
	default:
		return waiting(infrav1.EndpointBrokenReason,
			"The server at %s does not answer like Ironic: %s; see its log", cluster, seen)
	}
}

// waiting returns a verdict without a holder. The format gets the address and the detail.
func waiting(reason, format string, cluster Cluster, seen Sighting) Verdict {
	return Verdict{Outcome: outcome.Waiting(reason, fmt.Sprintf(format, cluster.Address, seen.Detail))}
}

func (c Cluster) identify(seen Sighting) Verdict {
	if len(seen.Conductors) == 0 {
		return Verdict{Outcome: outcome.Waiting(infrav1.EndpointStartingReason, fmt.Sprintf(
			"Waiting for the Ironic on %s to start: it has no conductor yet", c.Address))}
	}
	holder, conductor := c.holder(seen.Conductors)
	holder.Term = seen.Terms[conductor]
	known := c.Before != nil && c.Before.Kind == holder.Kind && c.Before.Name == holder.Name
	if holder.Kind == infrav1.HolderManagement && c.Incomplete && !known {
		// If a control-plane node counted as the management cluster, the manager would disarm the VIP holder.
		return Verdict{KnownHosts: c.known(seen.Nodes), Outcome: outcome.Done(), Message: fmt.Sprintf(
			"%s answers on %s. Its node is unknown until the nodes of the control plane are known",
			holder.Name, c.Address)}
	}
	if holder.Kind == infrav1.HolderForeign {
		return Verdict{Holder: &holder, Outcome: outcome.Waiting(infrav1.EndpointForeignReason, fmt.Sprintf(
			"Conductor %s answers on %s and does not belong to clusterID %s: remove the VIP from its node, or choose another",
			holder.Name, c.Address, c.ClusterID))}
	}
	return Verdict{
		Holder: &holder, KnownHosts: c.known(seen.Nodes), Outcome: outcome.Done(),
		Message: fmt.Sprintf("%s %s answers on %s", holder.Kind, holder.Name, c.Address),
	}
}

// holder returns the VIP holder among the conductors that answer, and the name of its conductor. If several have the
// prefix of the cluster, the conductor of a control-plane node counts, because it is certain.
func (c Cluster) holder(conductors []string) (holder infrav1.IronicHolder, conductor string) {
	var ours []string
	for _, conductor := range slices.Sorted(slices.Values(conductors)) {
		if node, is := strings.CutPrefix(conductor, c.ClusterID+"-"); is && node != "" {
			ours = append(ours, node)
		}
	}
	for _, node := range ours {
		if slices.Contains(c.ControlPlane, node) {
			return infrav1.IronicHolder{Kind: infrav1.HolderControlPlane, Name: node}, c.ClusterID + "-" + node
		}
	}
	if len(ours) > 0 {
		return infrav1.IronicHolder{Kind: infrav1.HolderManagement, Name: ours[0]}, c.ClusterID + "-" + ours[0]
	}
	foreign := slices.Min(conductors)
	return infrav1.IronicHolder{Kind: infrav1.HolderForeign, Name: foreign}, foreign
}

// known returns the number of hosts with a node in Ironic, without those that Ironic has not verified or adopted yet.
func (c Cluster) known(nodes map[string]string) *int32 {
	var count int32
	for _, host := range c.Hosts {
		if state, known := nodes[host]; known && !slices.Contains(unfinishedStates(), state) {
			count++
		}
	}
	return &count
}

// unfinishedStates are the states of a node in Ironic before BMO has registered it completely. A node stays in one of
// them while its BMC does not answer.
func unfinishedStates() []string { return []string{"enroll", "verifying", "adopting", "adopt failed"} }
