// Package rbac holds the rights of the manager against what it does: it plays the life of a cluster and an upgrade with
// the role that is installed, and reads in the audit log which rights were missed and which were never used.
//
// It refuses to guess from the code which rights are needed. What no story uses has to be argued for by name.
package rbac
