// Package witness observes the holder of an address of a lab from the network: which machines answer for the address in
// ARP, which program answers a client, and which machine offers to boot a new machine. It does not read the state of
// the machines.
//
// It asks ten times a second, for an address of DHCP once, and remembers every answer, so that a story can tell
// afterwards for how long no node held the VIP, and whether two nodes ever did. Two that answer the same question both
// hold the VIP. When the VIP moves, the old and the new holder may answer the same question; two that answer for long
// do not know of one another.
//
// It refuses IPv6: its neighbour discovery would be a second implementation for the same finding. The trade-off: on a
// busy machine an answer may come after the next question was asked, so single observations mean little.
package witness
