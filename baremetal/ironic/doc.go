// Package ironic describes Ironic on a node: the pods, and the configuration of the DHCP server beside it.
//
// The same containers come in two wrappings. On a control-plane node they are three static pods, because the kubelet
// restarts all containers of a pod whose file changes, and whoever holds the address must be able to judge Ironic from
// outside. On the management side they are one Deployment, because there the containers have to land on one node, and
// an API server is there to update them.
//
//	                 vip            ironic                              dnsmasq
//	init                            prepare, download                   prepare
//	containers       guard          ironic, httpd, ramdisk-logs         dnsmasq
//	starts           at once        at once; Ironic itself with the     with the address
//	                                address in mode Cold
//	dies                            Ironic at the end of its term       when the address leaves
//
// Ironic is told its address instead of waiting for it (IRONIC_IP without PROVISIONING_IP), since the address comes
// only to a node whose Ironic is healthy. Each node has a conductor name of its own.
//
// When the address leaves a node, the Ironic there has to stop at once: as soon as another node serves the hosts, its
// memory of them is out of date, and it would correct their power. So it runs behind the guard's program, which hears
// from the kernel that the address has left and freezes Ironic with all that it has started. If the address returns
// before another node can have held it, Ironic continues. Otherwise it is killed and its container ends. The kubelet
// starts the container again, without the files of the one before. Where that happens again and again it waits longer
// and longer, and a warm standby is not healthy meanwhile.
//
// The probes of upstream are not used: they restart an Ironic that is merely slow, and an Ironic that restarts forgets
// everything. Ironic has no liveness probe at all; health is judged by the guard, which sends the address elsewhere.
//
// Everything is served with TLS and demands credentials. There is no way to turn that off: the address is reachable for
// the whole network.
//
// The folder that Ironic shares with httpd is one folder of the node, and not a cache beside a scratch volume, because
// Ironic makes hard links between its parts and those do not cross mounts.
//
// It refuses to render settings that admission would not have let pass where the result would be silently wrong.
package ironic
