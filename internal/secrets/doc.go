// Package secrets manages the credentials and certificates of an Ironic endpoint: one complete Secret for each
// Metal3Cluster with spec.ironic. Servers and clients of the endpoint read no other Secret.
//
// The package keeps existing values and generates missing ones, so users may provide all values, only an authority, or
// none. Secrets that spec.ironic names have precedence over generated values, and their values are copied. The
// Metal3Cluster controls the Secret, so the Secret moves with it. A Secret of the user with valid values and without an
// owner gets the Metal3Cluster as an owner. A Secret that BMO uses is refused.
//
// The package returns an error for an invalid value in the Secret itself, and for an incomplete pair, which the user
// must correct. Errors contain no secret material. Values of a Secret of the user exist twice, and the next reconcile
// updates the copy.
package secrets
