// Package metal3cluster reconciles Metal3Clusters: it makes sure that there is a control-plane endpoint, reports the
// failure domains, and keeps the object until the machines of its cluster are gone and the hosts that wait for more of
// them are free. With spec.ironic it also gives the Ironic endpoint its identity, keeps its credentials and
// certificates, and tells who holds it.
//
// The control-plane endpoint is written by people, on the Metal3Cluster or on the Cluster; this controller only finds
// it. It refuses to wait for anything once the Cluster itself is gone: then nobody is left to delete the machines.
//
// The nodes decide which Ironic holds the endpoint; this controller only observes it. An endpoint that does not answer
// never keeps a cluster from being ready. Two probers run beside the reconciles, one for the endpoint and one for the
// nodes that carry it. They enqueue a Metal3Cluster when a result is news, so a status may be one interval old, and an
// idle cluster costs almost no requests.
package metal3cluster
