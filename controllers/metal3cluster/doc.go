// Package metal3cluster reconciles Metal3Clusters: it requires a control-plane endpoint, reports the failure domains,
// and keeps the object until the Machines of its cluster are gone and their reserved hosts are released. With
// spec.ironic it also sets the identity of the Ironic endpoint, keeps its credentials and certificates, and reports the
// VIP holder.
//
// Users set the control-plane endpoint, on the Metal3Cluster or on the Cluster. The deletion waits for nothing once the
// Cluster itself is gone: no controller is left to delete the Machines.
//
// The nodes decide which Ironic holds the endpoint; this controller only observes it. An endpoint that does not answer
// never keeps a cluster from being ready. Two probers run beside the reconciles, one for the endpoint and one for the
// nodes that carry it. They enqueue a Metal3Cluster when a result changes, so a status may be one interval old, and an
// idle cluster costs almost no requests.
package metal3cluster
