// Package rbac compares the RBAC rules of the manager with its requests. It runs the life of a cluster and an upgrade
// with the installed role, and reads the audit log for missing and unused rules. A rule that no story uses requires
// an entry with its reason.
package rbac
