// Package host decides everything about the BareMetalHost of a machine: which one it gets, what is written on it and
// how it is let go.
//
// Choosing is a chain of named checks. Every host either passes all of them or fails at the first one that does not
// hold, and that check is the reason why the host was not taken. Among the hosts that pass, the ranking is:
//
//  1. reserved for the owner of the machine by node reuse
//  2. standing in the wanted failure domain
//  3. by a hash of the names of host and machine
//
// The hash spreads machines that choose at the same time over equal hosts, and gives the same answer every time. A
// random choice would spread as well and could not be explained; the order of names could be explained and would send
// all workers to the same host.
//
// Claiming remembers on the host what it replaces, in one annotation, so that releasing can put it back and nothing of
// the machine stays on the host. The package never talks to an API server: it returns what should be written.
package host
