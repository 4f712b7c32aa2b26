// Package metal3cluster reconciles Metal3Clusters: it makes sure that there is a control-plane endpoint, reports the
// failure domains, and keeps the object until the machines of its cluster are gone.
//
// The endpoint is written by people, on the Metal3Cluster or on the Cluster; this controller only finds it. It
// refuses to wait for anything once the Cluster itself is gone: then nobody is left to delete the machines.
package metal3cluster
