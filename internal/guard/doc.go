// Package guard is the program that runs beside keepalived on every node that may hold the VIP of Ironic. It is
// process 1 of the pod `vip`.
//
//	              settings, certificates      own Node          VRRP on the wire
//	                        |                     |                    |
//	Ironic <-- health --> verdict            annotation             silence, foreign speakers
//	                        |                     |                    |
//	                   [ Debounce ]          [ policy.Decide ]         |
//	                        v                     v                    v
//	                    ironic-ok               armed               metrics
//	                        |                     |
//	                        +----> keepalived <---+      child of the guard: one fate
//	                                   |
//	                                  VIP ----> holder, metrics
//
// keepalived elects the VIP holder. The guard decides whether this node takes part in the election. It controls
// keepalived by two files that fail closed: nothing has to be executed and no connection has to stand for a node to
// step down.
//
// What happens when something dies:
//
//	keepalived dies         the guard removes the VIP and starts keepalived again, which reclaims the VIP before the
//	                        other nodes miss it
//	the guard dies          the kernel kills keepalived too, because the guard is process 1 of its container. A new
//	                        guard that finds the VIP reclaims it. Without one, the kernel removes the VIP when its
//	                        lease ends, within leaseValidity
//	the interface is down   the node stays the holder as long as the other nodes tolerate silence
//	the guard is told to    keepalived advertises priority 0 and removes the VIP
//	  end
//	a file cannot be        the guard stops keepalived until it can: a file that stays at "1" would lie
//	  written
//	checks come to an end   ironic-ok falls to "0" after checkPatience
//
// Package term describes the database of Ironic after the VIP left.
//
// A doubt about Ironic ends the claim to the VIP. A doubt about the API server does not: the last answer counts until
// there is another one. The trade-off is a guard that needs a node's root for its network and reads the kubelet's
// credentials; in exchange it works while no API server does.
//
// The program stays small because it runs beside etcd: no Kubernetes client, no types of Kubernetes.
package guard
