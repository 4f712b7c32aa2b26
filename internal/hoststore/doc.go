// Package hoststore reads and writes BareMetalHosts for the controllers.
//
// Reads come from the cache, through an index of consumers and a pool of the hosts that no machine holds, and never
// from a list call. Claiming works as in a scheduler: a host is assumed in memory before the claim is written, so
// that workers of one process do not choose the same host, and the write carries the resource version that the choice
// was made from, so that nobody else's write is lost. The memory is only a hint: a restart loses it, and the consumer
// reference on the host tells the truth.
//
// A machine that finds no host is remembered. A host that becomes free wakes the machine that has waited longest of
// those that could take it, and the next one only if the first does not.
//
// The store refuses to judge hosts: which one is taken and what is written on it comes from baremetal/host.
package hoststore
