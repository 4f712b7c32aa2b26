package pivot

import (
	bmov1alpha1 "github.com/metal3-io/baremetal-operator/apis/metal3.io/v1alpha1"

	infrav1 "github.com/metal3-pivot/cluster-api-provider-metal3/api/v1beta2"
)

// Phase is where a host stands on its way through a move, in words for people. It says what is, and Step what comes
// next.
type Phase string

// Values of Phase.
const (
	// Running means that BMO cares for the host, and nothing is under way.
	Running Phase = "Running"

	// Working means that BMO does something that a move would interrupt.
	Working Phase = "Busy"

	// Parking means that a move waits for the host, which is quiet and not recorded yet.
	Parking Phase = "Parking"

	// AtRest means that the host is ready to be copied.
	AtRest Phase = "Parked"

	// PausedByUser means that a person keeps BMO away.
	PausedByUser Phase = "PausedByUser"

	// WaitingForEndpoint means that the host stays paused after a move until the Ironic endpoint proves to be the
	// cluster's own.
	WaitingForEndpoint Phase = "WaitingForEndpoint"

	// FencedOff means that the host stays paused because another management cluster manages it.
	FencedOff Phase = "Fenced"

	// HeldBack means that the host stays paused because of what was left over of an earlier move.
	HeldBack Phase = "Held"

	// Resuming means that the pause is about to be lifted.
	Resuming Phase = "Resuming"

	// Leaving means that the host was copied to another cluster, and is being deleted in this one.
	Leaving Phase = "Leaving"
)

// Phases are all of them, in the order in which people are told of them.
func Phases() []Phase {
	return []Phase{Running, Working, Parking, AtRest, WaitingForEndpoint, FencedOff, HeldBack, Resuming, PausedByUser,
		Leaving}
}

// PhaseOf says where a host stands. The first row that fits counts.
//
//	host is                                          phase
//	being deleted by a move                          Leaving
//	paused, managed by another management cluster    FencedOff
//	held because of a leftover                       HeldBack
//	busy                                             Working
//	wanted parked, paused by anybody and recorded    AtRest
//	paused by somebody else                          PausedByUser
//	wanted parked                                    Parking
//	not paused                                       Running
//	paused by us, wanted running                     Resuming
//	paused by us, nobody knows                       WaitingForEndpoint
func PhaseOf(host *bmov1alpha1.BareMetalHost, around []Neighbour) Phase {
	if _, moving := host.Annotations[infrav1.DeleteForMoveAnnotation]; moving {
		return Leaving
	}
	by, paused := host.Annotations[bmov1alpha1.PausedAnnotation]
	wish := WishFor(host, around)
	switch {
	case paused && wish == Fence:
		return FencedOff
	case planArrival(host, around, paused) == Keep:
		return HeldBack
	case Busy(host) != "":
		return Working
	case wish == Park && parkedFor(host, around):
		return AtRest
	case paused && by != infrav1.HostPausedByProvider:
		return PausedByUser
	default:
		return phaseByWish(wish, paused)
	}
}

// phaseByWish is the phase of a quiet host that only the provider may have paused, by what its Clusters want of it.
func phaseByWish(wish Wish, paused bool) Phase {
	switch {
	case wish == Park:
		return Parking
	case !paused:
		return Running
	case wish == Run:
		return Resuming
	default:
		return WaitingForEndpoint
	}
}
