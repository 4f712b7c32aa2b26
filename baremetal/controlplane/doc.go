// Package controlplane renders the files with which a control-plane machine holds the VIP and runs Ironic: the static
// pods, the settings of the guard, credentials and certificates. They become part of the bootstrap data of the machine.
// For the management side, it renders a Deployment and the data of a Secret.
//
// All control-plane machines of a cluster get the same files. The name and the addresses of a node may be unknown when
// the files are rendered, and a change of them does not render the files again. The guard on the node therefore reads
// both, computes the rank of the node, and renders keepalived.conf with package keepalived.
//
// The package returns an error for material that would not work on the node: a certificate for other addresses, a key
// that does not belong to it, an authority that did not sign it, a htpasswd without the user. It has no clock, so it
// accepts an expired certificate. It does not verify the hash of the password, which would take longer than all other
// checks.
//
// The package also chooses the virtual router ID of a new cluster, and finds conflicting users of the ID or of the
// VIPs. Conflicts are reported to users, and do not prevent rendering.
package controlplane
