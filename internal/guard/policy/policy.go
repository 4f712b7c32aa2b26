// Package policy decides whether this node may hold the VIP of Ironic. It is pure: what it knows is in Observation.
//
// In doubt a node may not hold the VIP. The one exception is the management side: it holds the VIP from the start and
// loses it only by demotion, because no other node serves Ironic before the handover. After the handover a management
// Ironic that holds the VIP still knows the hosts and keeps the VIP. If it loses the VIP, its database is empty, and it
// does not reclaim the VIP.
//
//	who            override file   node annotation   handed over   armed
//	either         1               any               any           yes
//	either         0 or garbage    any               any           no
//	management     none            false             any           no
//	management     none            anything else     no            yes
//	management     none            anything else     yes           while it holds the VIP
//
//	who            override file   takeover    node annotation   management silent   armed
//	control plane  none            Always      false             any                 no
//	control plane  none            Always      anything else     any                 yes
//	control plane  none            AfterMove   true              any                 yes
//	control plane  none            AfterMove   false             any                 no
//	control plane  none            AfterMove   anything else     long enough         yes
//	control plane  none            AfterMove   anything else     no                  no
//	control plane  none            Manual      any               any                 no
package policy

import (
	"time"

	"github.com/metal3-pivot/cluster-api-provider-metal3/baremetal/vip"
)

// Answer is what a person or a controller said. Empty means no answer.
type Answer string

// Values of Answer.
const (
	// Yes lets the node hold the address.
	Yes Answer = "yes"

	// No keeps the node from holding it.
	No Answer = "no"

	// Unclear is an answer that cannot be read.
	Unclear Answer = "unclear"
)

// Observation is all that counts.
type Observation struct {
	// Role of the node. An unknown one is never armed.
	Role vip.Role

	// Takeover of a control-plane node. An unknown one never arms.
	Takeover vip.Takeover

	// Override is the file on the node.
	Override Answer

	// Annotation is the annotation of the node's own Node object, as last read.
	Annotation Answer

	// HandedOver says that the management side gave the cluster to its own control plane.
	HandedOver bool

	// Holding says that this node has the address.
	Holding bool

	// Silence is for how long the management side was not heard, while it could have been.
	Silence time.Duration

	// SilenceLimit is after how much silence the node is armed. Zero means never.
	SilenceLimit time.Duration
}

// Decision is whether the node may hold the address, and why.
type Decision struct {
	// Armed lets keepalived hold the address.
	Armed bool

	// Reason is one word for logs and metrics; it changes only when the facts do.
	Reason string
}

// Decide judges what was observed.
func Decide(seen Observation) Decision {
	switch seen.Override {
	case "":
	case Yes:
		return Decision{Armed: true, Reason: "ArmedByFile"}
	case No:
		return Decision{Reason: "DisarmedByFile"}
	default:
		return Decision{Reason: "UnreadableFile"}
	}
	switch seen.Role {
	case vip.Management:
		return management(seen)
	case vip.ControlPlane:
		return controlPlane(seen)
	default:
		return Decision{Reason: "UnknownRole"}
	}
}

func management(seen Observation) Decision {
	if seen.HandedOver && !seen.Holding {
		return Decision{Reason: "HandedOver"}
	}
	return unlessRefused(seen.Annotation, "Management")
}

func controlPlane(seen Observation) Decision {
	switch seen.Takeover {
	case vip.Always:
		return unlessRefused(seen.Annotation, "Always")
	case vip.Manual:
		return Decision{Reason: "WaitingForFile"}
	case vip.AfterMove:
	default:
		return Decision{Reason: "UnknownTakeover"}
	}
	switch {
	case seen.Annotation == Yes:
		return Decision{Armed: true, Reason: "ArmedByAnnotation"}
	case seen.Annotation == No:
		return Decision{Reason: "DisarmedByAnnotation"}
	case seen.SilenceLimit > 0 && seen.Silence >= seen.SilenceLimit:
		return Decision{Armed: true, Reason: "ManagementSilent"}
	default:
		return Decision{Reason: "WaitingForMove"}
	}
}

func unlessRefused(annotation Answer, reason string) Decision {
	if annotation == No {
		return Decision{Reason: "DisarmedByAnnotation"}
	}
	return Decision{Armed: true, Reason: reason}
}

// coldGrace is how long Ironic may take to start on a node that has just got the address.
const coldGrace = 2 * time.Minute

// Fit says whether the state of Ironic lets the node hold the address. With a cold standby Ironic runs only where the
// address is, so a node without it is given the benefit of the doubt, and one that has just got it some time. If Ironic
// does not come up in that time, another node gets its turn.
func Fit(standby vip.Standby, healthy, holding bool, holdingFor time.Duration) bool {
	return healthy || standby == vip.Cold && (!holding || holdingFor < coldGrace)
}
