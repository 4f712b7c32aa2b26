// Package ironicapi observes the conductors that answer at an Ironic endpoint, and the nodes that are registered there.
//
// A failed probe is data, not an error: a refused connection, a certificate of another authority, refused credentials.
// Each failure has its own kind, because each has another remedy. An error means that the caller passed an invalid
// argument.
//
// The package changes nothing in Ironic, and does not repeat answers that may be secret or long. It requires the API
// version that BMO requires, and requests no newer version, so that it works with old and new releases. Therefore it
// does not report data of newer versions.
package ironicapi
