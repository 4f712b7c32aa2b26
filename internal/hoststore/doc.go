// Package hoststore reads and writes BareMetalHosts for the controllers.
//
// Reads use the cache, an index by consumer, and a pool of the hosts without a machine. They never send a list call.
// The pool keeps claimable hosts apart, so a choice costs the same however many hosts are claimed or busy.
//
// Claiming works as in a scheduler: the store assumes a host in memory before it writes the claim, so that two workers
// do not choose the same host. The write carries the resource version of the chosen copy, so it overwrites no other
// write. The memory is a hint that a restart loses. The consumerRef of the host is authoritative.
//
//	state                    file         begins                          ends
//	host without a machine   pool.go      the cache shows it              the cache shows a consumer or a deletion
//	assumption of a host     assume.go    a machine chooses it            the cache shows the claim; conflict; refusal;
//	                                                                      Forget; the host is deleted
//	confirmed claim          assume.go    the API server stores a claim   with its assumption
//	outdated version         assume.go    a write conflicts               the cache shows another version or a deletion
//	refusal of a machine     refusal.go   the API server refuses a claim  the cache shows another version or a deletion;
//	                                                                      another claim of the host succeeds; all hosts
//	                                                                      refused the machine; Forget
//	pause of a host          refusal.go   the API server refuses a claim  hostPause; the cache shows another version
//	pause of a machine       refusal.go   the API server refuses a claim  its end; a claim succeeds; Forget
//	waiter and its place     waitlist.go  a machine requests a host       Settle of a machine that stops waiting
//	open waiter              waitlist.go  a machine requests a host       an offer enqueues it; it chooses a host
//	offer of a host          waitlist.go  it suits an open waiter         Settle of that machine; the host is deleted
//	shortage of a request    waitlist.go  a machine finds no host         the next count; the waitlist is empty
//	waitlist of a namespace  waitlist.go  with its first waiter           with its last waiter and offer
//
// One lock guards this state. store.go changes it, cache.go reads hosts and feeds it. baremetal/host decides which host
// a machine gets and what a claim writes.
package hoststore
