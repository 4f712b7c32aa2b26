// Package clusterapi runs the specs with which Cluster API tests infrastructure providers, on the nodes of a lab.
//
// Each spec has its own namespace and hosts. metal3.yaml is the configuration of the specs: providers, variables of
// the templates, and time limits. The templates are those of the release, adapted to the machines of the lab. The
// folder templates has additions for single specs.
//
// It requires root and Linux, and is skipped otherwise. Logs and objects are in out/clusterapi of the checkout.
package clusterapi
