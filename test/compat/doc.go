// Package compat applies manifests for CAPM3 to a real API server with the CRDs and webhooks of this provider.
// Manifests that CAPM3 accepts must apply in their version, and after a read in the stored version.
// A documented policy for v1beta2 must also apply to v1beta1.
//
// The environment variable CAPM3_MANIFESTS names the folder of the manifests, which are not part of the project.
package compat
