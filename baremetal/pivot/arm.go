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

// PlanArming says what to do with a node of the control plane. Own says that the cluster manages itself: the manager
// runs in the cluster that it manages.
//
//	takeover   own   armed   holder       do
//	other      any   any     any          Keep: the guard on the node decides, or a person
//	AfterMove  yes   no      any          Arm
//	AfterMove  yes   yes     any          Keep
//	AfterMove  no    yes     Management   Disarm: the cluster was moved back, and there it is served again
//	AfterMove  no    yes     other        Keep: nobody else could serve it
//	AfterMove  no    no      any          Keep
func PlanArming(takeover infrav1.TakeoverPolicy, own, armed bool, holder *infrav1.IronicHolder) Arming {
	managed := holder != nil && holder.Kind == infrav1.HolderManagement
	switch {
	case takeover != "" && takeover != infrav1.TakeoverAfterMove:
		return KeepArming
	case own && !armed:
		return Arm
	case !own && armed && managed:
		return Disarm
	default:
		return KeepArming
	}
}
