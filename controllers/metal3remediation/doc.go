// Package metal3remediation reconciles Metal3Remediations, which a MachineHealthCheck creates for unhealthy Machines and
// deletes once they are healthy: it reboots the host, fences its Node meanwhile, and after the last try marks the
// Machine for its owner to replace.
//
// Time in which nothing can be done, such as a pause, does not count towards the timeout of a try.
package metal3remediation
