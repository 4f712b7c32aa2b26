// Package ironicapi observes which conductors answer on an Ironic endpoint, and which nodes that Ironic has registered.
//
// A failed probe is data, not an error: a refused connection, a certificate of another authority, refused credentials.
// Each failure has a kind of its own, because each has another remedy. An error means that the caller passed a wrong
// argument.
//
// It changes nothing in Ironic, and does not repeat answers of an endpoint that could be a secret or a text of any
// length. It requires the API version that BMO requires, and requests no newer one, so that it works with old and new
// Ironics. The trade-off: it does not report what only a newer version returns.
package ironicapi
