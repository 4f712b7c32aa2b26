// Package hostmove prepares hosts for clusterctl move, and resumes them afterwards.
//
// While the Clusters of a host are paused, the controller waits until BMO is done with the host, and pauses the host.
// Then it writes the status into the annotation from which BMO of the target cluster restores it. It treats hosts
// without a consumer in the same way, because they move too. When the Clusters run again, in the source or in the
// target, and their own Ironic answers, it removes the pause. When another Ironic takes over, it sets an annotation on
// every host, so that BMO reconciles the host at once. It removes the annotation from hosts that depend on no Ironic
// endpoint.
//
// A host whose Node has joined while BMO still provisions it is not provisioned again by an Ironic that has not
// registered it.
//
// Each reconcile derives the step from the host and the Clusters around it (baremetal/pivot). It never changes a pause
// of the user, nor a host that clusterctl is deleting.
package hostmove
