// Package hoststore reads and writes BareMetalHosts for the controllers.
//
// Reads use the cache, an index by consumer, and a pool of the hosts without a machine. They never send a list call.
// The pool keeps claimable hosts apart, so a choice costs the same however many hosts are claimed or busy.
//
// Claiming works as in a scheduler: the store assumes a host in memory before it writes the claim, so that two workers
// do not choose the same host. The write carries the resource version of the chosen copy, so it overwrites no other
// write. The memory is a hint that a restart loses. The consumerRef of the host is authoritative.
//
//	state                  file         begins                          ends
//	pool                   pool.go      the cache shows a free host     the cache shows a consumer or a deletion
//	claimable host         pool.go      any machine may claim it        a change of the host; it leaves the pool
//	assumption             assume.go    a machine chooses a host        the cache shows the claim; conflict; refusal;
//	                                                                    Forget; the host is deleted
//	confirmed claim        assume.go    the API server stores a claim   with its assumption
//	outdated version       assume.go    a write conflicts               the cache shows another version or a deletion
//	refusal                assume.go    the API server refuses a claim  the same; another claim of the host succeeds
//	waiter and its place   waitlist.go  a machine requests a host       Settle of a machine that stops waiting
//	open waiter            waitlist.go  a machine requests a host       an offer enqueues it; it chooses a host
//	offer                  waitlist.go  a host suits an open waiter     Settle of that machine; the host is deleted
//	search of a request    shortages.go a machine finds no host         a host may suit now; a refusal ends
//	count of a request     shortages.go a machine finds no host         any host changes, and as many milliseconds pass
//	                                                                    as there are hosts, above 100 hosts
//	sequence number        waitlist.go  with the first waiter           with the last waiter and offer of the namespace
//
// One lock guards this state. Each namespace has its own waitlist. baremetal/host decides which host a machine gets and
// what a claim writes.
package hoststore
