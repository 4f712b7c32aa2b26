// Package host decides which BareMetalHost a machine gets, what the machine writes on it, and how the host is released.
//
// Choosing is a chain of named checks. A host passes all of them, or fails at the first one that does not hold: this
// check is the reason why the host cannot be claimed. The ranking of the hosts that pass is:
//
//  1. reserved for the owner of the machine by node reuse
//  2. standing in the wanted failure domain
//  3. by a hash of the names of host and machine
//
// The hash spreads machines that choose at the same time over equal hosts, and gives the same answer every time. A
// random choice could not be repeated. The order of names would send all machines to the same host.
//
// A claim records in an annotation of the host what it replaces. The release restores that, so that nothing of the
// machine stays on the host. The package has no client: it returns the host to write.
package host
