// Package pivot judges what is seen of a move: who holds the Ironic endpoint, whether a cluster could be moved now,
// and what has to happen to a host before and after.
//
// A pivot is the moment when the holder of the endpoint changes from the management cluster to the control plane. No
// status survives it, so everything here is decided from what can be observed again: the names of the conductors that
// answer, the nodes of the control plane, who is paused and by whom. Same facts, same answer. A conductor is named
// <clusterID>-<node>.
//
//	time ─────►    build             clusterctl move           after              handover
//	Cluster        runs              paused          moved     runs               runs
//	Metal3Cluster  block-move        block-move, until all     block-move         block-move
//	                                 hosts are parked
//	hosts          free to change    parked: paused, status    paused until the   nudged: registered and
//	                                 in an annotation          endpoint is known  adopted by the new Ironic
//	                                                           to be ours
//	nodes          not armed         not armed                 armed              one of them holds
//	holder         Management        Management                Management         ControlPlane
//
// It refuses to guess: of what answers without proving itself, the holder is not known, and a host whose cluster cannot
// be found is left alone. The trade-off of telling clusters apart by a prefix is that a clusterID which begins with
// another one and a dash would pass for it; IDs that the provider chooses have no dash.
package pivot
