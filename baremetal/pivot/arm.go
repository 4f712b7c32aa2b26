package pivot

import (
	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Arming is what to do with the annotation that lets a node of the control plane take the Ironic endpoint.
type Arming string

// Values of Arming.
const (
	// KeepArming changes nothing.
	KeepArming Arming = "Keep"

	// Arm lets the node take the endpoint.
	Arm Arming = "Arm"

	// Disarm keeps the node from taking it, and makes it give the endpoint away.
	Disarm Arming = "Disarm"
)

// Armed says whether a node may take the Ironic endpoint, and who said so.
type Armed string

// Values of Armed.
const (
	// NotArmed means that the annotation is not set, so the node may not.
	NotArmed Armed = "No"

	// ArmedByProvider means that this provider has armed the node.
	ArmedByProvider Armed = "ByProvider"

	// ArmedByUser means that a person has.
	ArmedByUser Armed = "ByUser"

	// Refused means that a person has said that it may not.
	Refused Armed = "Refused"
)

// PlanArming says what to do with a node of the control plane. Own says that the cluster manages itself: the manager
// runs in the cluster that it manages.
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
