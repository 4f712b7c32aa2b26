// Package hoststore reads and writes BareMetalHosts for the controllers.
//
// Reads come from the cache, through an index of consumers and a pool of the hosts without a machine, and never from
// a list call. Claiming works as in a scheduler: a host is assumed in memory before the claim is written, so that the
// workers of one process do not choose the same host. The write carries the resource version that the choice was made
// from, so that no other write is lost. The memory is a hint: a restart loses it, and the consumer reference on the
// host is the truth.
//
//	state                  file         begins                          ends
//	pool                   pool.go      the cache shows a free host     the cache shows a consumer or a deletion
//	assumption             assume.go    a machine chooses a host        the cache shows the claim; conflict; Forget
//	confirmed claim        assume.go    the API server stores a claim   with its assumption
//	outdated version       assume.go    the API server refuses a write  the cache shows another version
//	waiter and its place   waitlist.go  a machine looks for a host      Settle, when the machine waits no more
//	open waiter            waitlist.go  a machine has looked            an offer enqueues it; it chooses a host
//	offer                  waitlist.go  a host concerns an open waiter  Settle of that machine; the host is deleted
//	answer                 answers.go   a machine finds no host         any host or assumption changes
//	turn                   waitlist.go  with the first waiter           with the last waiter and offer of the namespace
//
// One lock guards all of it. The waitlist is one per namespace. The store does not judge hosts: baremetal/host decides
// which host is chosen and what is written on it.
package hoststore
