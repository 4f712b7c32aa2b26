// Package host decides which BareMetalHost a machine claims, the fields that the claim writes, and the steps of its
// release. The package has no client: it returns the host to write.
//
// A chain of checks decides which hosts pass. The first check that fails is the reason that the user sees. The hosts
// that pass are ranked by:
//
//  1. reservation for the owner of the machine by node reuse
//  2. wanted failure domain
//  3. a hash of the names of host and machine
//
// The hash spreads machines that choose at the same time over equal hosts, and is reproducible.
//
// A claim records the values that it replaces in an annotation of the host. The release restores these values.
package host
