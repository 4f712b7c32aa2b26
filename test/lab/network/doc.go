// Package network is the switch of a lab and the cables that lead to its machines.
//
// A lab has one network namespace of its own, the switch. It holds a bridge with the gateway's addresses, a port for
// each machine and a route to the pods of each machine. A machine has a namespace too, with one network card in it,
// eth0, that is one end of a veth pair; the other end is the machine's port. What runs outside reaches a lab through
// Dial, Listen and Proxy, which open their sockets inside the switch.
//
// The namespace that a lab is started from gets no interface, no address, no route and no rule: labs cannot disturb one
// another, nor the computer that they run on, and the packet filter of that computer cannot disturb them.
//
// It refuses names of hosts: nothing inside a lab answers DNS, and a resolver would ask from outside of the switch.
//
// The trade-off: a bridge has no layer-3 isolation of its own, so a partition moves ports to other bridges, which is
// certain to cut everything, and only one side of a partition keeps the gateway.
package network
