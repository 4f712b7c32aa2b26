// Package keepalived renders keepalived.conf for one node of a group with common VIPs.
//
// The file depends on facts of the node, so the guard on the node renders it. Like package vip, this package imports
// the standard library only, because it is linked into the guard.
//
// Decisions about the file:
//
//   - Two track files decide whether the node may hold the VIPs: Ironic is healthy, and the node is armed. Both have
//     "weight 0 reverse": a missing, empty or invalid file means no. Without "reverse" it would mean yes.
//   - Every statement has its own line. keepalived accepts "track_file x { file ... weight 0 reverse }" on one line,
//     but ignores the options, and holds the VIPs without a check.
//   - No scripts: if keepalived may not change its user, a script that does not start counts as one that succeeded.
//   - The management side has the highest priority and takes the VIPs after a delay. Control-plane nodes never take
//     them from a holder (nopreempt), because a takeover costs the database of Ironic.
//   - keepalived does not track the interface (dont_track_primary): a holder that loses its carrier for a moment would
//     lose the VIPs. The guard clears the health file when the interface is down for too long.
//   - A holder that hears one of a higher priority announces that it was a holder before it yields
//     (vrrp_higher_prio_send_advert). So the guard of the other node learns that the control plane was divided, and its
//     keepalived announces the VIPs again.
//   - Version 3 of VRRP, which has no passwords. In unicast mode keepalived accepts only packets that crossed no router
//     (a TTL of 255). In multicast mode VRRP requires that.
//   - Two families are two instances in one sync group, which has the track files: both VIPs move, or none.
//
// Render returns an error for values that would end a statement, unicast without peers, and intervals that VRRP cannot
// express.
package keepalived
