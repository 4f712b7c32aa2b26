// Package metal3remediation reconciles Metal3Remediations. A MachineHealthCheck creates one for an unhealthy Machine
// and deletes it after the Machine is healthy. The controller reboots the host and fences its Node during the reboot.
// After the last failed try, it marks the Machine for replacement by its owner.
//
// The timeout of a try does not include times in which the controller cannot act, such as a pause.
package metal3remediation
