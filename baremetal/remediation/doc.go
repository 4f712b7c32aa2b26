// Package remediation decides how a host is rebooted when the Machine on it is unhealthy, and when the Machine is
// replaced instead.
//
// A remediation consists of tries. A try powers the host off, fences its Node so that pods may run elsewhere, powers
// the host on and restores the Node. A try that leaves the Machine unhealthy until its timeout is followed by the next
// one. After the last try, the owner of the Machine replaces it.
//
// The status of a Metal3Remediation does not survive clusterctl move, and its UID changes. The progress is therefore
// kept in an annotation (Record), and no name contains a UID.
package remediation
