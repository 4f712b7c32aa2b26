// Package keepalived renders keepalived.conf for one node of a group with common VIPs.
//
// The file depends on facts of the node, so the guard on the node renders it. Like package vip, this package imports
// the standard library only, because it is linked into the guard.
//
// Decisions about the file:
//
//   - Two track files decide whether the node may hold the VIPs: Ironic is healthy, and the node is armed. Both have
//     "weight 0 reverse": with a missing, empty or invalid file, the node may not hold the VIPs.
//   - Every statement has its own line. keepalived accepts "track_file x { file ... weight 0 reverse }" on one line,
//     but ignores the options, and holds the VIPs without a check.
//   - No scripts: if keepalived cannot change its user, a script that does not start counts as successful.
//   - The management side has the highest priority and takes the VIPs after a delay. Control-plane nodes never take
//     them from a holder (nopreempt), because a takeover costs the database of Ironic.
//   - keepalived does not track the interface (dont_track_primary): a holder that loses its carrier for a moment would
//     lose the VIPs. The guard clears the health file when the interface is down for too long.
//   - The source address is fixed, for IPv4 also in mode Multicast (mcast_src_ip): keepalived would release the VIPs
//     when an address that it chose leaves the interface. systemd-networkd removes addresses as soon as the carrier is
//     lost.
//   - A holder that receives an advertisement of a higher priority sends one before it releases the VIPs
//     (vrrp_higher_prio_send_advert). The guard of the other node then detects that the control plane was divided, and
//     its keepalived announces the VIPs again.
//   - Version 3 of VRRP, which has no passwords. In unicast mode keepalived accepts only packets that crossed no router
//     (a TTL of 255). In multicast mode VRRP requires that.
//   - Two families are two instances in one sync group, which has the track files: both VIPs move, or none.
//
// Render returns an error for values that would end a statement, unicast without peers, and intervals that VRRP cannot
// express.
package keepalived
