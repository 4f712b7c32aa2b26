// Package cgroup groups the processes of a lab: each machine has a control group in every mounted hierarchy, which
// contains all its processes. So a machine can be powered off, and leftovers of a crashed lab can be found, without
// process ids.
//
// It supports version 1, version 2, and both. In version 2 a group with delegated controllers must not have processes,
// so the group of a machine has child groups: the root of its operating system, and one for the processes of the lab.
//
// Before a signal, the package opens a process by its id and checks its group again, because ids are reused.
//
// Groups are at the top of each hierarchy and not below that of the caller, so limits of the caller do not apply to
// machines.
package cgroup
