// Package metal3data reconciles Metal3Data: it claims the addresses that the template names, renders meta-data and
// network-data into Secrets, and releases the addresses in the end.
//
// Rendered data is immutable: a Secret that exists is never written, so that a host is provisioned again in the same
// state, and what CAPM3 rendered stays. A Secret that is missing is rendered again from the same addresses.
//
// Addresses come from two APIs, the one of Metal3 and the IPAM contract of Cluster API. Either may be installed after
// the manager has started: its watch begins when the first template names one of its pools.
package metal3data
