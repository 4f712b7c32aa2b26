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
//	                        +----> keepalived <---+      child of the guard
//	                                   |
//	                                  VIP ----> holder, metrics
//
// keepalived elects the VIP holder. The guard decides whether this node takes part in the election. It controls
// keepalived by two files. A missing or invalid file makes the node release the VIP.
//
// Failures and their effects:
//
//	keepalived dies         the guard removes the VIP and starts keepalived again, which reclaims the VIP before the
//	                        other nodes miss it
//	keepalived hangs        the guard removes a VIP that the node must not hold any more, and replaces keepalived
//	the guard dies          the kernel kills keepalived too, because the guard is process 1 of its container. A new
//	                        guard that finds the VIP reclaims it. Without one, the kernel removes the VIP when its
//	                        lease ends, within leaseValidity
//	the interface is down   the node stays the holder as long as the other nodes tolerate silence
//	the guard ends          keepalived advertises priority 0 and removes the VIP
//	a file cannot be        the guard stops keepalived until the file can be written again
//	  written
//	the checks stop         ironic-ok falls to "0" after checkPatience
//	Ironic, or its web      see health.Debounce: with a slow web server, the holder keeps the VIP
//	  server, fails
//
// Package term describes the database of Ironic after the VIP left.
//
// An unhealthy Ironic ends the claim to the VIP. An unreachable API server does not: the last answer stays valid. The
// guard runs as root in the network of the node and reads the credentials of the kubelet, so that it works without an
// API server.
//
// The program must stay small because it runs beside etcd. It has no cache of Kubernetes objects.
package guard
