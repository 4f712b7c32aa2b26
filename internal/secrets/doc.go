// Package secrets keeps the credentials and certificates of an Ironic endpoint: one Secret for each Metal3Cluster with
// spec.ironic, complete enough that everybody who serves the endpoint or talks to it needs no other.
//
// What is there is kept and what is missing is made to fit it, so that a user may bring all of it, only an authority,
// or nothing. Secrets that spec.ironic names win over what was generated, and what they hold is copied. The Secret is
// controlled by the Metal3Cluster, and so moves with it; a Secret of the user becomes owned where it has no owner.
//
// The package returns an error for a value that a user has put into the Secret itself, and for half a pair: the user
// decides. Errors contain no secret material. The trade-off: values in a Secret of the user exist twice, and the copy
// follows with the next reconcile.
package secrets
