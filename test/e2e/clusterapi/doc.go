// Package clusterapi runs the specs with which Cluster API tests infrastructure providers, on the nodes of a lab.
//
// Each spec has a namespace of its own, with hosts of its own. metal3.yaml is the configuration that these specs take:
// the providers, the variables of the templates, and how long each step may take. The templates are those of the
// release, adapted to the machines of the lab; templates holds what single specs add to them.
//
// It needs root and Linux, and says why it skips without. Logs and objects are in out/clusterapi of the checkout.
package clusterapi
