// Package e2e tells the life of clusters on real kubeadm nodes and a real Ironic, in a lab (package test/lab).
//
// The stories share one lab and most of them one cluster, in order: each begins with what the one before it has left.
// They use the framework of Cluster API wherever that fits a cluster that exists already.
//
// It needs root and Linux, and says why it skips without. When a story fails, a folder with logs, objects, consoles and
// events is kept and named in the output.
package e2e
