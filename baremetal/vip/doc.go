// Package vip knows virtual addresses: which address a group of nodes shares, which nodes are its members, which
// virtual router ID tells the group from its neighbours, and what one node has to be told to take part.
//
// NodeSettings is the contract between what is rendered for a machine and the guard that runs on it. The guard runs on
// every control-plane node beside etcd and has to stay small, so this package imports the standard library alone: no
// type of Kubernetes, not even for a duration.
//
// It refuses what a node could not recover from by itself: two addresses of one family, an address that is the network
// itself, a node's own address as the shared one, a member that no other member hears. It takes text, not addresses,
// because its input was written by a person and the message has to repeat what the person wrote.
package vip
