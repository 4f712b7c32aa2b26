// Package compat applies manifests that were written for CAPM3 to a real API server with the definitions and webhooks
// of this provider: what applied there has to apply here, in the version that it was written in and, read back, in
// the stored one.
//
// The manifests are not part of the project. The environment variable CAPM3_MANIFESTS names the folder that holds them.
package compat
