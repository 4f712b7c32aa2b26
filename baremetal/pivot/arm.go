package pivot

import (
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Arming is the action on the annotation that permits a control-plane node to take the VIP.
type Arming string

// Values of Arming.
const (
	// KeepArming changes nothing.
	KeepArming Arming = "Keep"

	// Arm permits the node to take the VIP.
	Arm Arming = "Arm"

	// Disarm prevents the node from taking the VIP, and makes it hand the VIP over.
	Disarm Arming = "Disarm"
)

// Armed says whether a node may take the VIP, and who decided it.
type Armed string

// Values of Armed.
const (
	// NotArmed means that the annotation is not set, so the node must not take the VIP.
	NotArmed Armed = "No"

	// ArmedByProvider means that this provider has armed the node.
	ArmedByProvider Armed = "ByProvider"

	// ArmedByUser means that a user has armed the node.
	ArmedByUser Armed = "ByUser"

	// Refused means that a user has disarmed the node.
	Refused Armed = "Refused"
)

// PlanArming returns the action for a control-plane node. Own says that the cluster manages itself: the manager runs in
// the cluster that it manages.
//
//	takeover   own   armed        holder       do
//	other      any   any          any          Keep: the guard on the node decides, or a person
//	AfterMove  yes   no           any          Arm
//	AfterMove  no    by provider  Management   Disarm: the cluster was moved back, and there it is served again
//	AfterMove  any   otherwise    any          Keep: no other node could serve it, or a user has decided
func PlanArming(takeover infrav1.TakeoverPolicy, own bool, armed Armed, holder *infrav1.IronicHolder) Arming {
	managed := holder != nil && holder.Kind == infrav1.HolderManagement
	switch {
	case takeover != "" && takeover != infrav1.TakeoverAfterMove:
		return KeepArming
	case own && armed == NotArmed:
		return Arm
	case !own && armed == ArmedByProvider && managed:
		return Disarm
	default:
		return KeepArming
	}
}
