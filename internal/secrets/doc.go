// Package secrets keeps the credentials and certificates of an Ironic endpoint: one Secret for each Metal3Cluster with
// spec.ironic, complete enough that everybody who serves the endpoint or talks to it needs no other.
//
// What is there is kept and what is missing is made to fit it, so that a user may bring all of it, only an authority,
// or nothing. Secrets that spec.ironic names win over what was generated, and what they hold is copied. The Secret is
// controlled by the Metal3Cluster, and so moves with it; a Secret of the user becomes owned where it has no owner.
//
// It refuses to overwrite what somebody put into the Secret itself, and to guess what half a pair was meant to be:
// both are for a person to decide. Nothing that it says holds secret material. The trade-off: values that the user
// keeps in a Secret of their own exist twice, and follow it with the next look.
package secrets
