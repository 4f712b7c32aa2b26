// Package controlplane composes what a control-plane machine needs to hold the Ironic address and to serve Ironic
// behind it: the static pods, the settings of the guard, credentials and certificates, as files for the machine's
// bootstrap data. The management side gets the same as a Deployment and the data of a Secret.
//
// All control-plane machines of a cluster get the same files. What differs from node to node, its name, its addresses
// and its rank, the guard finds out on the node: at the time of rendering it is not always known, and what was rendered
// once is not rendered again when it changes.
//
// keepalived.conf is therefore not among the files. The guard renders it from its settings with package keepalived.
//
// It refuses material that would not work on the node, whose first boot is unattended: a certificate for other
// addresses, a key that does not belong to it, an authority that did not sign it, a htpasswd without the user. It does
// not look at the clock, so it does not refuse what has expired, and not into the hash of the password, which takes
// longer than everything else together.
//
// It also chooses the virtual router ID of a new cluster beside those of others, and names who else uses the ID or the
// addresses of an endpoint. The latter is for people: it keeps nothing from being composed.
package controlplane
