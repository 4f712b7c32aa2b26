// Package witness observes an address of a lab from the network: the machines that answer ARP for it, the program that
// answers a client, and the machines that offer DHCP. It does not read the state of the machines.
//
// It sends ten requests a second, one of DHCP, and records every answer. Stories read from the journals how long no
// node held the VIP, and whether two nodes ever did. During a handover the old and the new VIP holder may answer the
// same request; two holders that answer for long are a split brain.
//
// It does not support IPv6. On a busy machine an answer may arrive after the next request, so single observations mean
// little.
package witness
