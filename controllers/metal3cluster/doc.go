// Package metal3cluster reconciles Metal3Clusters: it makes sure that there is a control-plane endpoint, reports the
// failure domains, and keeps the object until the machines of its cluster are gone and the hosts that wait for more of
// them are free. With spec.ironic it also gives the Ironic endpoint its identity, keeps its credentials and
// certificates, and tells who holds it.
//
// The control-plane endpoint is written by people, on the Metal3Cluster or on the Cluster; this controller only finds
// it. It refuses to wait for anything once the Cluster itself is gone: then nobody is left to delete the machines.
//
// The Ironic endpoint is only watched: who holds it is decided on the nodes. Whether it answers never keeps a cluster
// from being ready. It is looked at beside the reconciles, so the status may be one interval old.
package metal3cluster
