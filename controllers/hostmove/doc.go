// Package hostmove makes hosts ready to be moved to another cluster by clusterctl, and puts them to work again
// afterwards.
//
// While the Clusters that a host belongs to are paused it waits until BMO is done with the host, pauses
// it, and writes its status into the annotation that BMO of the other cluster takes it up from. Free
// hosts move too, so they are treated in the same way. When the Clusters run again, here or there, and their own
// Ironic answers, it takes the pause back; and when another Ironic takes over, it makes BMO look at
// every host at once, by an annotation that goes when the last cluster with an Ironic endpoint has gone.
//
// A host whose system runs although it is still being provisioned, as far as BMO knows, is kept from
// being provisioned again by an Ironic that has never seen it.
//
// It works host by host and remembers nothing: what to do next follows from the host and the Clusters around it
// (baremetal/pivot). It refuses to touch a pause by anybody else, and a host that clusterctl is deleting.
package hostmove
