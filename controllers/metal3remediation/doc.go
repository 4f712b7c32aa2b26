// Package metal3remediation reconciles Metal3Remediations. A MachineHealthCheck creates one for an unhealthy Machine
// and deletes it once the Machine is healthy. The controller reboots the host and fences its Node meanwhile. After the
// last try it marks the Machine for its owner to replace.
//
// Time in which nothing can be done, such as a pause, does not count towards the timeout of a try.
package metal3remediation
