// Package issuer stands in for cert-manager in labs and in tests: the definitions of its kinds are cert-manager's own,
// this small controller does the work behind them.
//
// It signs every Certificate whose issuer is a selfSigned or CA Issuer or ClusterIssuer, renews it in time, reports
// Ready on issuers and certificates, and puts the certificate of the authority into the webhooks and definitions that
// carry the annotation cert-manager.io/inject-ca-from. That is what Cluster API and its providers use cert-manager for.
//
// It refuses everything else, by name: a Certificate with a field that is unknown here, or an issuer of another type,
// becomes not Ready with a message that says so. Keys are ECDSA P-256 and are made anew at every issue,
// unless the Certificate says that its key stays. There is no validating webhook, so mistakes show up in the conditions
// and not at apply.
//
// Secrets are watched by their metadata and read when they are needed: nothing secret is kept in memory. The price is
// one read per certificate for every change of any Secret in its namespace.
package issuer
