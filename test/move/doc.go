// Package move moves hosts from one management cluster to another with the real clusterctl, while the manager runs in
// the cluster that they leave, with the webhooks that are installed and with its default flags.
//
// Nobody sets a label or an owner by hand: what arrives in the target shows that the manager has made it movable, and
// what a host operator in the source could have seen of the hosts shows that it had no reason to touch them. There are
// two API servers and no host operator; hosts are what stays behind most easily, because no Cluster owns them, so there
// is no Cluster either.
package move
