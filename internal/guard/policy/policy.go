// Package policy decides whether this node may hold the VIP of Ironic. It is pure: Observation is its only input.
//
// By default a node may not hold the VIP. The exception is a management node: it holds the VIP from the start and
// loses it only by demotion, because no other node serves Ironic before the handover. After the handover a management
// Ironic that holds the VIP still has its nodes and keeps the VIP. If it loses the VIP, its database is empty, and it
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

// Answer is the answer of a user or a controller. Empty means no answer.
type Answer string

// Values of Answer.
const (
	// Yes lets the node hold the VIP.
	Yes Answer = "yes"

	// No forbids the VIP.
	No Answer = "no"

	// Unclear is an invalid answer of a user.
	Unclear Answer = "unclear"
)

// Observation is the input of a decision.
type Observation struct {
	// Role of the node.
	Role vip.Role

	// Takeover of a control-plane node.
	Takeover vip.Takeover

	// Override is the answer in the file on the node.
	Override Answer

	// Annotation is the last read annotation of the Node object of this node.
	Annotation Answer

	// HandedOver is true if the management cluster has handed the cluster over to its control plane.
	HandedOver bool

	// Holding is true if this node has the VIP, or has its term.
	Holding bool

	// Silence is how long the management node was not heard, while it could have been.
	Silence time.Duration

	// SilenceLimit is the silence that arms the node. Zero means never.
	SilenceLimit time.Duration
}

// Decision is whether the node may hold the VIP, and the reason.
type Decision struct {
	// Armed lets keepalived hold the VIP.
	Armed bool

	// Reason is one word for logs and metrics. It changes only with the input.
	Reason string
}

// Decide returns the decision for an observation.
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
	if seen.Role == vip.Management {
		return management(seen)
	}
	return controlPlane(seen)
}

func management(seen Observation) Decision {
	if seen.HandedOver && !seen.Holding {
		return Decision{Reason: "HandedOver"}
	}
	return unlessRefused(seen.Annotation, "Management")
}

func controlPlane(seen Observation) Decision {
	switch {
	case seen.Takeover == vip.Always:
		return unlessRefused(seen.Annotation, "Always")
	case seen.Takeover == vip.Manual:
		return Decision{Reason: "WaitingForFile"}
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

// coldGrace is the time for Ironic to start on a node that has just got the VIP.
const coldGrace = 2 * time.Minute

// Fit returns true if the state of Ironic lets the node hold the VIP. With a cold standby Ironic runs only on the VIP
// holder. A node without the VIP therefore counts as fit, and a new holder for coldGrace. If Ironic does not start in
// that time, another node gets the VIP.
func Fit(standby vip.Standby, healthy, holding bool, holdingFor time.Duration) bool {
	return healthy || standby == vip.Cold && (!holding || holdingFor < coldGrace)
}
