// Package network is the switch of a lab with the cables to its machines.
//
// A lab has a network namespace, the switch, with a bridge with the gateway's addresses, a port for each machine and a
// route to the pods of each machine. A machine has a namespace with one network card, eth0, one end of a veth pair. The
// other end is the port of the machine. Dial, Listen and Proxy open sockets inside the switch for programs outside.
//
// The package adds no interface, address, route and rule to the namespace of its process. So labs do not affect each
// other or the computer, and its packet filter does not affect them.
//
// It requires IP addresses: a lab has no DNS, and a resolver would use the network outside of the switch.
//
// A bridge has no layer-3 isolation, so a partition moves ports to other bridges, which cuts all traffic. Only one side
// of a partition keeps the gateway.
package network
