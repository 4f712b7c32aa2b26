// Package cgroup keeps the processes of a lab together: each machine has a control group, in every hierarchy that the
// computer mounts, and everything that runs on the machine is in it or below it. So a machine can be powered off, and
// what a crashed lab left can be found, without remembering a single process id.
//
// It works with version 1, with version 2, and with both side by side, as the computer has it. On version 2 a group
// that hands controllers on must not hold processes, which is why a machine has groups inside of its group: one that
// its operating system sees as the root, and one for the lab's own processes beside it.
//
// It refuses to signal a process by its number alone: the process is pinned first and then looked at again, because
// numbers are given out anew.
//
// The trade-off: groups are made at the top of each hierarchy and not inside the one of the caller. On a computer that
// limits the caller, the machines are free of that limit.
package cgroup
