// Package metal3machine reconciles Metal3Machines: it claims a host, waits for its provisioning, links the Node, and
// releases the host when the machine is deleted.
//
// No decision depends on the status, so the next reconcile recovers from a crash between two writes:
//
//	write                                 state after a crash                     recovery
//	1 finalizer and host name on machine  a name on a machine without a claim     another choice
//	2 claim on the host                   a host with the machine as consumer     the index by consumer
//	3 status of the machine               an old status                           another observation
//
// For a control-plane machine of a Metal3Cluster with spec.ironic, the controller injects the files of the Ironic
// endpoint into the bootstrap data. It writes the result to a separate Secret before the claim.
//
// It does not write a host of another consumer, claim a second host for a provisioned machine, or act on an object that
// clusterctl move deletes.
package metal3machine
