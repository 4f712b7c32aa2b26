// Package guard is the program that runs beside keepalived on every node that may hold the Ironic address. It is
// process 1 of the pod `vip`.
//
//	              settings, certificates      own Node          VRRP on the wire
//	                        |                     |                    |
//	Ironic <-- health --> verdict            annotation             silence, strangers
//	                        |                     |                    |
//	                   [ Debounce ]          [ policy.Decide ]         |
//	                        v                     v                    v
//	                    ironic-ok               armed               metrics
//	                        |                     |
//	                        +----> keepalived <---+      child of the guard: one fate
//	                                   |
//	                                address ----> holder, metrics
//
// keepalived decides who holds the address; the guard decides whether this node takes part. It tells keepalived through
// two files that fail closed: nothing has to be executed and no connection has to stand for a node to step down.
//
// What happens when something dies:
//
//	keepalived dies         the guard removes the address and starts keepalived again, which takes the address back
//	                        before the others miss it
//	the guard dies          as process 1 of its container it takes keepalived along without a word. A new guard that
//	                        finds the address takes it back; without one the kernel removes the address when its
//	                        lease ends, within leaseValidity
//	the interface is down   the node stays the holder as long as the others forgive silence
//	the guard is told to    keepalived says goodbye to its peers and removes the address
//	  end
//	a file cannot be        the guard stops keepalived until it can: a file that stays at "1" would lie
//	  written
//	checks come to an end   ironic-ok falls to "0" after checkPatience
//
// What becomes of the database of Ironic when the address leaves: see package term.
//
// It refuses to hold the address on any doubt about Ironic, and to give it away on any doubt about the API server: the
// last answer counts until there is another one. The trade-off is a guard that needs a node's root for its network and
// reads the kubelet's credentials; in exchange it works while no API server does.
//
// The program stays small because it runs beside etcd: no Kubernetes client, no types of Kubernetes.
package guard
