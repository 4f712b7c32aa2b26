// Package issuer replaces cert-manager in labs and tests: a small controller for the CRDs of cert-manager.
//
// It signs and renews every Certificate of a selfSigned or CA Issuer or ClusterIssuer, sets Ready on issuers and
// certificates, and injects the certificate of the authority into webhooks and CRDs with the annotation
// cert-manager.io/inject-ca-from. Cluster API and its providers use no other feature.
//
// A Certificate with an unsupported field, or an issuer of another type, is not Ready, with a message. Keys are ECDSA
// P-256 and are replaced at every issue, unless the Certificate keeps its key. There is no validating webhook, so
// errors appear in conditions only.
//
// The controller watches only the metadata of Secrets and reads them when required, so that no secret is in memory.
// Each change of a Secret costs one read per certificate of its namespace.
package issuer
