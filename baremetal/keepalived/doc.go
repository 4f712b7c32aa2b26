// Package keepalived renders keepalived.conf for one node of a group that shares addresses.
//
// The node takes part with what it knows about itself, so the guard on the node renders the file, and whoever wants to
// see what a node will run renders it elsewhere with the same function. Like package vip it keeps to the standard
// library, because it is linked into the guard.
//
// What the file says, and why:
//
//   - Two track files decide whether the node may hold the addresses at all: one says that Ironic is healthy, the other
//     that the node is armed. Both have "weight 0 reverse": missing, empty and garbage mean no. Without "reverse" they
//     would mean yes.
//   - Every statement stands on a line of its own. keepalived accepts "track_file x { file ... weight 0 reverse }" on
//     one line, says that the file is fine, ignores the options, and holds the addresses without asking anybody.
//   - No scripts: keepalived that may not change its user treats a script that it cannot start as one that succeeded.
//   - The management side has the highest priority and takes the addresses back after a delay; nodes of the control
//     plane never do (nopreempt), because a takeover throws the state of Ironic away.
//   - keepalived does not track the interface (dont_track_primary): a holder that loses its carrier for a moment would
//     lose the addresses. The guard says through the health file when the interface is down for too long.
//   - A holder that hears one of a higher priority says that it was a holder before it gives in
//     (vrrp_higher_prio_send_advert). The guard of the other node hears that the two were divided, and its keepalived
//     tells the network once more where the addresses are.
//   - Version 3 of VRRP, which has no passwords. In unicast mode only packets that crossed no router are believed
//     (a TTL of 255); in multicast mode the protocol itself demands that.
//   - Two families are two instances, since an instance has one family, in one sync group, which owns the track files:
//     both addresses move or none does.
//
// It refuses values that would end a statement, unicast without anybody to talk to, and intervals that VRRP cannot
// express.
package keepalived
