// Package e2e tests clusters on real kubeadm nodes and a real Ironic, in a lab (package test/lab).
//
// The stories share one lab, and most of them one cluster, in order: each begins with the state of the previous one.
// They use the framework of Cluster API where it supports an existing cluster.
//
// It requires root and Linux, and is skipped otherwise. After a failure, the output names a folder with logs,
// objects, consoles and events.
package e2e
