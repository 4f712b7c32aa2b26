// Package metal3cluster reconciles Metal3Clusters: it requires a control-plane endpoint, reports the failure domains,
// and keeps the object until the Machines of its cluster are deleted and their reserved hosts are released. With
// spec.ironic it also sets the clusterID and the virtual router ID of the Ironic endpoint, creates its credentials and
// certificates, and reports the VIP holder.
//
// Users set the control-plane endpoint, on the Metal3Cluster or on the Cluster. If the Cluster does not exist, the
// deletion does not wait for Machines, because no controller deletes them.
//
// The VRRP election of the nodes decides which Ironic holds the VIP. The controller only observes the holder. A cluster
// is ready even if its Ironic endpoint does not answer. Two probers run beside the reconciles: for the endpoint, and
// for its nodes. They enqueue a Metal3Cluster when a result changes, so a status may be one interval old, and an idle
// cluster costs almost no requests.
package metal3cluster
