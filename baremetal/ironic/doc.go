// Package ironic renders Ironic on a node: the pods, and the configuration of the DHCP server.
//
// The same containers run in two forms. On a control-plane node they are three static pods: the kubelet restarts all
// containers of a pod whose file changes, and the guard must check Ironic from another pod. On the management side they
// are one Deployment: the containers must run on the same node, and an API server exists.
//
//	                 vip            ironic                              dnsmasq
//	init                            prepare, download                   prepare
//	containers       guard          ironic, httpd, ramdisk-logs         dnsmasq
//	starts           at once        at once; Ironic itself with the     with the VIP
//	                                VIP in mode Cold
//	ends                            Ironic at the end of its term       when the VIP leaves
//
// Ironic gets its address in a variable (IRONIC_IP without PROVISIONING_IP) instead of waiting for it, because only a
// node with a healthy Ironic gets the VIP. Each node has its own conductor name.
//
// When the VIP leaves a node, the Ironic of the node must stop at once: its database is outdated as soon as another
// node serves the hosts, and it would change the power of hosts. Therefore Ironic runs behind the gate of the guard.
// The kernel notifies the gate when the VIP is removed, and the gate stops all processes of Ironic. If the VIP returns
// before another node can have held it, Ironic continues. Otherwise the gate kills Ironic, and its container ends. The
// kubelet starts a new container without the files of the previous one. After several such ends the kubelet waits
// longer, and a warm standby is not healthy until then.
//
// The probes of upstream are not used: they restart a slow Ironic, and a restarted Ironic loses its database. Ironic
// has no liveness probe. The guard checks Ironic, and hands the VIP over if it is not healthy. Without the VIP there is
// no database to lose: the gate kills an Ironic that has failed the checks for ten minutes.
//
// All services have TLS and require credentials. No setting disables that, because the whole network reaches the VIP.
//
// Ironic and httpd share one folder of the node, instead of one for the cache and one for temporary files, because
// Ironic creates hard links between them, which do not cross mounts.
//
// The package returns an error for settings that admission refuses and that would render a wrong configuration.
package ironic
