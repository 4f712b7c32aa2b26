// Package metal3machine reconciles Metal3Machines: it claims a host, has it provisioned, links the node, and lets the
// host go when the machine is deleted.
//
// Each reconcile observes everything, then runs the phases that its route lists, then reports. A crash between any two
// writes is healed by the next reconcile, because nothing is decided from what an earlier one wrote in the status:
//
//	write                                 a crash right after it leaves           healed by
//	1 finalizer and host name on machine  a name on a machine without a claim     choosing again
//	2 claim on the host                   a host with the machine as consumer     the index of consumers
//	3 status of the machine               an old status                           observing again
//
// A control-plane machine of a Metal3Cluster with spec.ironic gets its bootstrap data with the files of the Ironic
// endpoint in it, in a Secret of its own that is written before the claim.
//
// It refuses to touch a host that another consumer holds, to claim a second host for a machine that was provisioned
// once, and to act on anything that clusterctl move is deleting.
package metal3machine
