// Package vip contains the VIPs of a group of nodes, its members, its virtual router ID, and the settings of the guard
// on one node.
//
// NodeSettings is the contract between the rendered files of a machine and the guard that runs on it. The guard runs on
// every control-plane node and must stay small, so this package imports the standard library only: no type of
// Kubernetes.
//
// The package returns an error for settings that a node cannot correct: two VIPs of one family, a VIP that is the
// network address, a node's own address as the VIP, a member that gets no advertisements. It parses text, so that the
// error quotes the input of the user.
package vip
