// Package ironicapi asks who answers on an Ironic endpoint, and what that Ironic knows.
//
// A failed probe is data, not an error: a refused connection, a certificate of another authority, refused credentials.
// Each failure has a kind of its own, because each has another remedy. An error means that the caller passed a wrong
// argument.
//
// It refuses to change anything in Ironic, and it never repeats what an endpoint said where that could be a secret or
// a text of any length. It requires the API version that BMO requires, and asks for no newer one, so that it
// understands old and new Ironics. The trade-off: what only a newer version tells is not reported.
package ironicapi
