// Package pivot decides about a move and a handover: which node holds the VIP of the Ironic endpoint, whether a cluster
// can be moved now, and which step a host requires.
//
// In a pivot, the VIP moves from the management cluster to the control plane. A move keeps no status, so all decisions
// depend on facts that can be observed again: the names of the conductors that answer, the control-plane nodes, and the
// pauses. The same facts give the same decision. A conductor has the name <clusterID>-<node>.
//
//	time ─────►    build             clusterctl move           after              handover
//	Cluster        runs              paused          moved     runs               runs
//	Metal3Cluster  block-move        block-move, until all     block-move         block-move
//	                                 hosts are parked
//	hosts          managed by BMO    parked: paused, status    paused until the   registered and adopted
//	                                 in an annotation          endpoint is        by the new Ironic
//	                                                           verified
//	nodes          not armed         not armed                 armed              one node holds the VIP
//	holder         Management        Management                Management         ControlPlane
//
// The package makes no assumptions: the holder of an unverified endpoint is unknown, and the manager does not change a
// host whose Cluster is not found. A clusterID that begins with another clusterID and a dash would be mistaken for it.
// Generated clusterIDs have no dash.
package pivot
